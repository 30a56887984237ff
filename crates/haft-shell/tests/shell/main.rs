//! Tests of whole commands: a table of cases, properties over random text, and a comparison with what bash does with
//! generated command lines.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, missing_docs)]

mod against_bash;
mod feeds;
mod loops;
mod rules;
mod table;

use std::collections::BTreeSet;
use std::path::Path;

use haft_shell::{self as shell, ParsedCommand, Rule, Side};
use haft_testing::{Need, missing, require};

const NASTY: &str = include_str!("nasty.txt");

/// The commands of the table, with their expected tags.
fn nasty() -> Vec<(BTreeSet<String>, String)> {
    let lines = NASTY.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    let table = lines.map(|line| {
        let (tags, command) = line.split_once(" :: ").unwrap();
        (tags.split_whitespace().map(unescape).collect(), unescape(command))
    });
    table.collect()
}

fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let code = rest[at + 1..].chars().next().unwrap();
        rest = &rest[at + 2..];
        match code {
            'n' => out.push('\n'),
            't' => out.push('\t'),
            'r' => out.push('\r'),
            '0' => out.push('\0'),
            'u' => {
                let (hex, after) = rest[1..].split_once('}').unwrap();
                out.push(char::from_u32(u32::from_str_radix(hex, 16).unwrap()).unwrap());
                rest = after;
            }
            c => out.push(c),
        }
    }
    out + rest
}

/// The tags of a command, as `nasty.txt` explains them.
fn tags_of(understood: &ParsedCommand) -> BTreeSet<String> {
    let mut tags = BTreeSet::new();
    let proof = shell::read_only(understood);
    tags.insert(match (proof.proven(), understood.doubts()) {
        (true, _) => "read-only".to_owned(),
        (_, []) => "known".to_owned(),
        _ => "unknown".to_owned(),
    });
    for banned in shell::banned(understood) {
        tags.insert(format!("banned:{}", banned.category.name()));
    }
    let sensitive = shell::sensitive(understood);
    if sensitive.iter().any(|sensitive| sensitive.catastrophic) {
        tags.insert("catastrophic".to_owned());
    } else if !sensitive.is_empty() {
        tags.insert("sensitive".to_owned());
    }
    if !shell::interactive(understood).is_empty() {
        tags.insert("interactive".to_owned());
    }
    tags
}

/// Runs every check on a command, to show that none panics.
fn run_all_checks(text: &str) {
    let understood = shell::parse(text);
    tags_of(&understood);
    shell::accesses(&understood, Path::new("/ws"));
    for rule in shell::offered_rules(&understood) {
        assert!(Rule::parse(&rule).is_ok(), "{rule}");
    }
    let offered: Vec<Rule> =
        shell::offered_rules(&understood).iter().map(|rule| Rule::parse(rule).unwrap()).collect();
    // The rules offered for a command cover it.
    assert!(offered.is_empty() || shell::RuleSet::new(offered).allows(&understood).is_some(), "{text:?}");
    shell::matches(text, &understood, Side::Allow);
    shell::matches(text, &understood, Side::Deny);
    if let Some(edit) = shell::in_place(&understood) {
        edit.apply("one\ntwo\nthree");
        edit.apply("äöü\n\n");
    }
}

/// A small seeded random number generator, so that the lines are the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }
    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.roll(from.len())]
    }
}

/// Changes a few characters: deletes, doubles or swaps them, or inserts shell syntax.
fn mutate(text: &str, dice: &mut Dice) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for _ in 0..=dice.roll(4) {
        let at = dice.roll(chars.len().max(1));
        match dice.roll(5) {
            0 if at < chars.len() => drop(chars.remove(at)),
            1 if at + 1 < chars.len() => chars.swap(at, at + 1),
            2 if at < chars.len() => chars.insert(at, chars[at]),
            _ => {
                let piece = dice.pick(&[
                    "'", "\"", "$(", ")", "`", "\\", ";", "&", "|", "<", ">", "{", "}", "\n", " ", "$", "((",
                    "<<E\n", "#", "~", "[", "*", "!", "=", "-",
                ]);
                for (n, c) in piece.chars().enumerate() {
                    chars.insert((at + n).min(chars.len()), c);
                }
            }
        }
    }
    chars.into_iter().collect()
}

/// Number of generated lines. `HAFT_TEST_LINES` overrides the default and also changes the seed.
fn lines(usual: usize) -> usize {
    std::env::var("HAFT_TEST_LINES").ok().and_then(|lines| lines.parse().ok()).unwrap_or(usual)
}
