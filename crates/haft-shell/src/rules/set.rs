//! A set of rules, indexed by program, so that a command is compared only with the rules about its programs.

use std::collections::HashMap;

use super::super::{Command, Doubt, ParsedCommand, Word, scan, wrap};
use super::{Piece, Rule, glob_matches, is_cd_below, names, parts_of, widened_glob};

/// Rules for commands, indexed by program.
#[derive(Debug, Clone, Default)]
pub struct RuleSet {
    rules: Vec<Rule>,
    by_program: HashMap<String, Vec<usize>>,
    /// Rules with a wildcard in place of the program, which every look-up includes.
    with_wildcard: Vec<usize>,
}

/// The rules that cover a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coverage {
    /// Index of the rule that covers the first part of the command.
    pub by: usize,
    /// Whether rules without a wildcard cover every part: their author wrote down exactly this command.
    pub exact: bool,
}

impl RuleSet {
    /// Builds the index over the rules.
    pub fn new(rules: Vec<Rule>) -> Self {
        let mut set = Self { rules, ..Self::default() };
        for (n, rule) in set.rules.iter().enumerate() {
            match rule.program() {
                Some(program) => set.by_program.entry(program).or_default().push(n),
                None => set.with_wildcard.push(n),
            }
        }
        set
    }

    /// Whether the set has no rules.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Indices of the rules that may be about a program.
    fn candidates<'a>(&'a self, program: &str) -> impl Iterator<Item = usize> + use<'a> {
        self.by_program.get(program).into_iter().flatten().chain(&self.with_wildcard).copied()
    }

    /// The rules that allow a command; `None` unless rules cover every part of it for certain.
    pub fn allows(&self, understood: &ParsedCommand) -> Option<Coverage> {
        let certain = understood.doubts().iter().all(|doubt| match doubt {
            // `Rule::allows` accepts these only for a rule without a wildcard.
            Doubt::Runs(_) | Doubt::InlineCode(_) => true,
            Doubt::Evaluates(name) => name == "exit",
            _ => false,
        });
        if !certain || self.is_empty() {
            return None;
        }
        let mut covered: Option<Coverage> = None;
        for command in parts_of(understood) {
            if command.redirects.iter().any(|redirect| !redirect.is_harmless()) {
                return None;
            }
            if command.argv.is_empty() || is_cd_below(command) || command.name() == "exit" {
                continue;
            }
            let program = command.argv.first().map(Word::text).unwrap_or_default();
            let mut by: Option<usize> = None;
            for n in self.candidates(program).filter(|n| self.rules[*n].allows(command)) {
                let better = by.is_none_or(|by| self.rules[n].is_exact() && !self.rules[by].is_exact());
                by = if better { Some(n) } else { by };
            }
            let by = by?;
            let exactly = self.rules[by].is_exact();
            covered = Some(match covered {
                None => Coverage { by, exact: exactly },
                Some(first) => Coverage { exact: first.exact && exactly, ..first },
            });
        }
        covered
    }

    /// Index of the first rule that may mean a part of a command, in any disguise.
    pub fn denies(&self, understood: &ParsedCommand) -> Option<usize> {
        if self.is_empty() {
            return None;
        }
        let commands = understood.commands().iter().filter_map(|command| self.denies_one(command));
        let scanned: Vec<&str> = understood.scanned().iter().map(String::as_str).collect();
        let texts = scanned.iter().enumerate().flat_map(|(n, word)| {
            let following = scanned.get(n + 1..).unwrap_or_default();
            let candidates = names(word).into_iter().flat_map(|name| self.candidates(&name));
            candidates.filter(move |n| self.rules[*n].denies_scanned(word, following))
        });
        commands.chain(texts).min()
    }

    /// Index of a rule that might mean a part of a command whose program is not certain: a variable or a glob in place
    /// of the program, or code for an interpreter.
    pub fn might_deny(&self, understood: &ParsedCommand) -> Option<usize> {
        understood.commands().iter().filter_map(|command| self.might_deny_one(command)).min()
    }

    fn might_deny_one(&self, command: &Command) -> Option<usize> {
        let first = command.argv.first()?;
        let expansion: Vec<Piece> = match first.doubt() {
            // The text is certain enough for `denies`.
            None | Some(Doubt::Backslash | Doubt::Quoting | Doubt::Tilde) => Vec::new(),
            Some(Doubt::Glob) => widened_glob(scan::basename(first.text())),
            Some(_) => vec![Piece::Any],
        };
        let fits = |rule: &Rule| rule.program().is_none_or(|program| glob_matches(&expansion, &program));
        if !expansion.is_empty() {
            return self.rules.iter().position(fits);
        }
        if !wrap::takes_code(command) {
            return None;
        }
        let words: Vec<String> = command.args().flat_map(scan::tokens).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let named = words.iter().enumerate().filter_map(|(n, word)| {
            let following = words.get(n + 1..).unwrap_or_default();
            self.candidates(word).filter(|n| self.rules[*n].denies_scanned(word, following)).min()
        });
        named.min()
    }

    fn denies_one(&self, command: &Command) -> Option<usize> {
        let first = command.argv.first()?;
        let mut possible = names(first.text());
        if !first.is_literal() {
            possible.extend(scan::tokens(first.raw()).map(|token| scan::basename(&token).to_owned()));
        }
        let candidates = possible.into_iter().flat_map(|name| self.candidates(&name));
        candidates.filter(|n| self.rules[*n].denies(command)).min()
    }
}
