//! Many rules at once: of a thousand, only those are looked at that are about the programs of a command.

use std::collections::HashMap;

use super::super::{Command, Doubt, Understood, Word, raw, wrap};
use super::{Piece, Rule, glob, is_way_down, names, parts_of, pattern_of};

/// Rules for commands.
#[derive(Debug, Clone, Default)]
pub struct RuleSet {
    rules: Vec<Rule>,
    by_program: HashMap<String, Vec<usize>>,
    /// Those that name no program, but a pattern.
    others: Vec<usize>,
}

/// How a command is covered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Covered {
    /// The rule that covers its first part.
    pub by: usize,
    /// Whether every part is covered by a rule without a wildcard: somebody wrote down exactly that.
    pub exactly: bool,
}

impl RuleSet {
    /// A set of rules.
    pub fn new(rules: Vec<Rule>) -> Self {
        let mut set = Self { rules, ..Self::default() };
        for (n, rule) in set.rules.iter().enumerate() {
            match rule.program() {
                Some(program) => set.by_program.entry(program).or_default().push(n),
                None => set.others.push(n),
            }
        }
        set
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    fn about<'a>(&'a self, program: &str) -> impl Iterator<Item = usize> + use<'a> {
        self.by_program.get(program).into_iter().flatten().chain(&self.others).copied()
    }

    /// Whether every part of a command is covered by one rule or another.
    pub fn allows(&self, understood: &Understood) -> Option<Covered> {
        let certain = understood.doubts().iter().all(|doubt| match doubt {
            // A rule without a wildcard may name these.
            Doubt::Runs(_) | Doubt::InlineCode(_) => true,
            Doubt::Evaluates(name) => name == "exit",
            _ => false,
        });
        if !certain || self.is_empty() {
            return None;
        }
        let mut covered: Option<Covered> = None;
        for command in parts_of(understood) {
            if command.redirects.iter().any(|redirect| !redirect.is_harmless()) {
                return None;
            }
            if command.argv.is_empty() || is_way_down(command) || command.name() == "exit" {
                continue;
            }
            let program = command.argv.first().map(Word::text).unwrap_or_default();
            let mut by: Option<usize> = None;
            for n in self.about(program).filter(|n| self.rules[*n].allows(command)) {
                let better = by.is_none_or(|by| self.rules[n].is_exact() && !self.rules[by].is_exact());
                by = if better { Some(n) } else { by };
            }
            let by = by?;
            let exactly = self.rules[by].is_exact();
            covered = Some(match covered {
                None => Covered { by, exactly },
                Some(first) => Covered { exactly: first.exactly && exactly, ..first },
            });
        }
        covered
    }

    /// The first rule that a part of a command may be meant by, in any disguise.
    pub fn denies(&self, understood: &Understood) -> Option<usize> {
        if self.is_empty() {
            return None;
        }
        let commands = understood.commands().iter().filter_map(|command| self.denies_one(command));
        let scanned: Vec<&str> = understood.scanned().iter().map(String::as_str).collect();
        let texts = scanned.iter().enumerate().flat_map(|(n, word)| {
            let following = scanned.get(n + 1..).unwrap_or_default();
            let about = names(word).into_iter().flat_map(|name| self.about(&name));
            about.filter(move |n| self.rules[*n].denies_scanned(word, following))
        });
        commands.chain(texts).min()
    }

    /// A rule that might be meant by a part of a command that does not tell what it runs: by a variable or a pattern in
    /// place of a program, or in the code for an interpreter.
    pub fn might_deny(&self, understood: &Understood) -> Option<usize> {
        understood.commands().iter().filter_map(|command| self.might_deny_one(command)).min()
    }

    fn might_deny_one(&self, command: &Command) -> Option<usize> {
        let first = command.argv.first()?;
        let becomes: Vec<Piece> = match first.doubt() {
            // These stand for what their text says.
            None | Some(Doubt::Backslash | Doubt::Quoting | Doubt::Tilde) => Vec::new(),
            Some(Doubt::Glob) => pattern_of(raw::basename(first.text())),
            Some(_) => vec![Piece::Any],
        };
        let fits = |rule: &Rule| rule.program().is_none_or(|program| glob(&becomes, &program));
        if !becomes.is_empty() {
            return self.rules.iter().position(fits);
        }
        if !wrap::takes_code(command) {
            return None;
        }
        let words: Vec<String> = command.args().flat_map(raw::tokens).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let named = words.iter().enumerate().filter_map(|(n, word)| {
            let following = words.get(n + 1..).unwrap_or_default();
            self.about(word).filter(|n| self.rules[*n].denies_scanned(word, following)).min()
        });
        named.min()
    }

    fn denies_one(&self, command: &Command) -> Option<usize> {
        let first = command.argv.first()?;
        let mut called = names(first.text());
        if !first.is_literal() {
            called.extend(raw::tokens(first.raw()).map(|token| raw::basename(&token).to_owned()));
        }
        let about = called.into_iter().flat_map(|name| self.about(&name));
        about.filter(|n| self.rules[*n].denies(command)).min()
    }
}
