//! A set of rules, indexed by program, so that a command is compared only with the rules about its programs.

use std::collections::HashMap;

use super::super::{Command, Doubt, ParsedCommand, Word, code, scan, wrap};
use super::{Piece, Rule, glob_matches, is_cd_below, names, parts_of, widened_glob};

/// Rules for commands, indexed by program.
#[derive(Debug, Clone, Default)]
pub struct RuleSet {
    rules: Vec<Rule>,
    by_program: HashMap<String, Vec<usize>>,
    /// Rules without a wildcard, by their text.
    by_text: HashMap<String, usize>,
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

/// A rule that might mean a command, without certainty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MightDeny {
    /// Index of the rule.
    pub rule: usize,
    /// The part of the command that is not certain, for people.
    pub because: String,
}

impl RuleSet {
    /// Builds the index over the rules.
    pub fn new(rules: Vec<Rule>) -> Self {
        let mut set = Self { rules, ..Self::default() };
        for (n, rule) in set.rules.iter().enumerate() {
            if let Some(literal) = &rule.literal {
                set.by_text.entry(literal.clone()).or_insert(n);
            }
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
        if let Some(by) = self.by_text.get(&understood.text) {
            return Some(Coverage { by: *by, exact: true });
        }
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

    /// A rule that might mean a part of a command which is not certain: a variable or a glob in place of a word,
    /// code for an interpreter, or something that runs without being in the text.
    pub fn might_deny(&self, understood: &ParsedCommand) -> Option<MightDeny> {
        if self.is_empty() {
            return None;
        }
        let hidden = understood.doubts().iter().find(|doubt| doubt.hides_programs());
        let hidden = hidden.map(|doubt| MightDeny { rule: 0, because: doubt.to_string() });
        hidden.or_else(|| understood.commands().iter().find_map(|command| self.might_deny_one(command)))
    }

    fn might_deny_one(&self, command: &Command) -> Option<MightDeny> {
        let first = command.argv.first()?;
        let found = |rule: usize, because: String| Some(MightDeny { rule, because });
        let expansion: Vec<Piece> = match first.doubt() {
            // The text is certain enough for `denies`.
            None | Some(Doubt::Backslash | Doubt::Quoting | Doubt::Tilde) => Vec::new(),
            Some(Doubt::Glob) => widened_glob(scan::basename(first.text())),
            Some(_) => vec![Piece::Any],
        };
        let fits = |rule: &Rule| rule.program().is_none_or(|program| glob_matches(&expansion, &program));
        if !expansion.is_empty() {
            let rule = self.rules.iter().position(fits)?;
            return found(rule, format!("the program that `{}` stands for is not certain", first.raw()));
        }
        let candidates = names(first.text()).into_iter().flat_map(|name| self.candidates(&name));
        if let Some((rule, word)) =
            candidates.filter_map(|n| Some((n, self.rules[n].might_deny(command)?))).min_by_key(|(n, _)| *n)
        {
            return found(rule, format!("what `{}` becomes is not certain", word.raw()));
        }
        if !wrap::takes_code(command) {
            return None;
        }
        let args = command.args().filter(|_| !wrap::takes_targets(command));
        let fed = command.code.iter().map(String::as_str);
        let words: Vec<&str> = args.chain(fed).flat_map(code::words).collect();
        let named = words.iter().enumerate().filter_map(|(n, word)| {
            let following = words.get(n + 1..).unwrap_or_default();
            let candidates = names(word).into_iter().flat_map(|name| self.candidates(&name));
            let rule = candidates.filter(|n| self.rules[*n].denies_scanned(word, following)).min()?;
            Some((rule, *word))
        });
        if let Some((rule, word)) = named.min() {
            return found(rule, format!("the code for `{}` contains `{word}`", command.name()));
        }
        code::may_start_programs(command).and_then(|because| found(0, because))
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
