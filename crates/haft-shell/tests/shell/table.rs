//! The table of commands, and random, mutated and deeply nested text.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;

#[test]
fn every_nasty_command_has_its_expected_tags() {
    let table = nasty();
    assert!(table.len() >= 120);
    let mut wrong = String::new();
    for (tags, command) in &table {
        let understood = shell::parse(command);
        let mut found = tags_of(&understood);
        for tag in tags
            .iter()
            .filter(|tag| tag.strip_prefix("runs:").is_some_and(|word| understood.words().contains(word)))
        {
            found.insert(tag.clone());
        }
        if found != *tags {
            let _ = writeln!(
                wrong,
                "{command:?}\n  expected {tags:?}\n  found    {found:?}\n  words {:?} doubts {:?} {:?} {:?}",
                understood.words(),
                understood.doubts(),
                shell::read_only(&understood),
                shell::sensitive(&understood)
            );
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn every_check_accepts_the_table() {
    for (_, command) in nasty() {
        run_all_checks(&command);
    }
}

#[test]
fn mutated_commands_never_panic() {
    let mut dice = Dice(7 + lines(0) as u64);
    let table = nasty();
    for _ in 0..lines(6000) {
        let command = &table[dice.roll(table.len())].1;
        run_all_checks(&mutate(command, &mut dice));
    }
}

#[test]
fn deeply_nested_text_does_not_panic() {
    let openings = [
        "(",
        "( ",
        "((",
        "{ ",
        "$(",
        "${a:-",
        "$((",
        "`",
        "\"$(",
        "if ",
        "if x; then ",
        "case x in a) ",
        "case x in (a) ",
        "while ",
        "f() { ",
        "[[ ( ",
        "[[ ! ",
        "! ",
        "time ",
        "<(",
        "x=(",
        "@(",
        "coproc ",
        "sh -c '",
        "eval ",
        "sudo ",
        "timeout 1 ",
        "<<a ",
        "\\\n",
        "[",
        "~",
        "a\\\n#",
        "xargs ",
        "find . -exec ",
        "a|",
        "a&",
        "a;",
        "a&&",
        "((( $(",
        "for x in ",
        "function f ",
        "select x in a; do ",
    ];
    for opening in openings {
        for count in [3, 9, 31, 40, 200, 16 * 1024 / opening.len()] {
            let text = format!("{}touch M", opening.repeat(count));
            run_all_checks(&text);
            let closed = format!(
                "{text}{}",
                if opening.ends_with(['(', ' ']) { ")".repeat(count) } else { "}".repeat(count) }
            );
            run_all_checks(&closed);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        run_all_checks(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn random_shell_never_panics(text in "([a-z ]{0,3}[-;&|()<>{}\\[\\]$`'\"\\\\#~*?!=\n 0-9]{0,3}){0,20}") {
        run_all_checks(&text);
    }
}
