//! Values that a command line assigns to variables, and what words with variables become with them. The order of
//! assignments and branches does not count: each value that a variable may have is a possible one. Only checks that
//! deny use the result.

use std::collections::{BTreeMap, BTreeSet};

use super::feed::Input;
use super::walk::Walk;
use super::{Command, Doubt, Word, WrappedBy, scan};

/// Most forms of one word or one command that are followed.
const MAX_FORMS: usize = 16;
/// Most commands that are added in all.
const MAX_ADDED: usize = 128;
/// Most rounds: a value may contain a variable itself.
const MAX_ROUNDS: usize = 3;

/// The values that are assigned to variables.
#[derive(Debug, Default)]
pub(super) struct Variables {
    values: BTreeMap<String, BTreeSet<String>>,
    /// Variables that also get values which are not in the text.
    unknown: BTreeSet<String>,
}

impl Variables {
    pub(super) fn assign(&mut self, name: &str, value: &Word) {
        if !value.is_literal() && value.text().contains(['$', '`', '*', '?', '{']) {
            self.unknown.insert(name.to_owned());
        }
        self.add(name, value.text());
    }

    /// Assigns an array, or the positional parameters.
    pub(super) fn assign_list(&mut self, name: &str, values: &[Word]) {
        values.iter().for_each(|value| self.assign(name, value));
        let all = values.iter().map(Word::text).collect::<Vec<_>>().join(" ");
        self.add(name, &all);
        for other in ["@", "*"].into_iter().filter(|_| name == "1") {
            self.add(other, &all);
        }
    }

    fn add(&mut self, name: &str, value: &str) {
        let values = self.values.entry(name.to_owned()).or_default();
        if values.len() < MAX_FORMS {
            values.insert(value.to_owned());
        } else {
            self.unknown.insert(name.to_owned());
        }
    }

    /// Learns from builtins that assign: `printf -v`, `set --`, `read`, `declare` and its like.
    pub(super) fn learn(&mut self, command: &Command) {
        let args = command.argv.get(1..).unwrap_or_default();
        match command.name() {
            "printf" => {
                if let [option, name, format, values @ ..] = args
                    && option.text() == "-v"
                {
                    let name = name.text().to_owned();
                    let text = values.iter().map(Word::text).collect::<Vec<_>>();
                    self.add(&name, &format.text().replace("%s", &text.join(" ")));
                    self.add(&name, &text.join(" "));
                }
            }
            "set" => {
                let words = args.iter().position(|arg| !arg.text().starts_with(['-', '+']));
                let words = words.and_then(|at| args.get(at..)).unwrap_or_default();
                self.assign_list("1", words);
                for (n, word) in words.iter().enumerate() {
                    self.assign(&(n + 1).to_string(), word);
                }
            }
            "declare" | "typeset" | "local" | "export" | "readonly" => {
                for (name, value) in args.iter().filter_map(|arg| arg.text().split_once('=')) {
                    self.add(name, value);
                }
            }
            "read" | "mapfile" | "readarray" | "getopts" => {
                for name in args.iter().map(Word::text).filter(|name| !name.starts_with('-')) {
                    self.unknown.insert(name.to_owned());
                    if let Input::Text(text) = &command.input {
                        text.lines().take(MAX_FORMS).for_each(|line| self.add(name, line.trim()));
                    }
                }
            }
            _ => {}
        }
    }

    /// What a text may become. A variable that is not assigned counts as empty.
    fn forms(&self, text: &str) -> Vec<String> {
        let mut forms = vec![String::new()];
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once('$') {
            forms.iter_mut().for_each(|form| form.push_str(before));
            let (values, after) = self.parameter(behind);
            rest = after;
            let longer =
                forms.iter().flat_map(|form| values.iter().map(move |value| format!("{form}{value}")));
            forms = longer.take(MAX_FORMS).collect();
        }
        forms.iter_mut().for_each(|form| form.push_str(rest));
        forms
    }

    /// The values of the parameter that a text begins with, behind its `$`, and the text after it.
    fn parameter<'a>(&self, text: &'a str) -> (Vec<String>, &'a str) {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let (inner, after) = match text.strip_prefix('{') {
            Some(rest) => rest.split_once('}').unwrap_or((rest, "")),
            None => {
                let length = text.find(|c| !is_name(c)).unwrap_or(text.len());
                let length = if length == 0 && text.starts_with(['@', '*', '#', '?']) { 1 } else { length };
                text.split_at_checked(length).unwrap_or((text, ""))
            }
        };
        let length = inner
            .find(|c| !is_name(c))
            .unwrap_or(inner.len())
            .max(usize::from(inner.starts_with(['@', '*'])));
        let (name, operator) = inner.split_at_checked(length).unwrap_or((inner, ""));
        let mut values: Vec<String> = self.values.get(name).into_iter().flatten().cloned().collect();
        // `${x:-default}` and `${x:=default}`.
        let default = operator.trim_start_matches(':').strip_prefix(['-', '=', '+']);
        values.extend(default.map(str::to_owned));
        if values.is_empty() {
            values.push(String::new());
        }
        (values, after)
    }

    /// Whether a text has a variable with a value, or a default for one.
    fn knows_some_of(&self, text: &str) -> bool {
        text.split('$').skip(1).any(|behind| self.parameter(behind).0.iter().any(|value| !value.is_empty()))
    }

    /// Whether every value of the variables in a text is known, so that no other word can be meant.
    fn knows_all_of(&self, text: &str) -> bool {
        let mut rest = text;
        while let Some((_, behind)) = rest.split_once('$') {
            let inner = behind.trim_start_matches('{');
            let length = inner.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(inner.len());
            let name = inner.get(..length).unwrap_or_default();
            let next = inner.get(length..).and_then(|after| after.chars().next());
            let is_plain = !behind.starts_with('{') || next == Some('}');
            if !is_plain || !self.values.contains_key(name) || self.unknown.contains(name) {
                return false;
            }
            rest = inner.get(length..).unwrap_or_default();
        }
        !text.contains('`')
    }
}

impl Walk {
    /// Adds the commands that words with variables may become, and notes all words of the text if a program is not
    /// certain even then.
    pub(super) fn expand_variables(&mut self, text: &str) {
        let is_uncertain = |word: &Word| {
            !matches!(
                word.doubt(),
                None | Some(Doubt::Backslash | Doubt::Quoting | Doubt::Tilde | Doubt::Glob)
            )
        };
        let mut from = 0;
        let mut added = 0;
        for _ in 0..MAX_ROUNDS {
            let to = self.out.commands().len();
            for at in from..to {
                let Some(command) = self.out.commands().get(at).filter(|command| !command.argv.is_empty())
                else {
                    continue;
                };
                if !command.argv.iter().any(is_uncertain) {
                    continue;
                }
                let command = command.clone();
                for argv in self.possible(&command) {
                    added += 1;
                    if added > MAX_ADDED {
                        break;
                    }
                    let name = command.argv.first().map(|first| first.raw().to_owned()).unwrap_or_default();
                    let by = Some(WrappedBy { name, transparent: false });
                    self.add_command(Command { argv, by, ..command.clone() });
                }
            }
            from = to;
        }
        let uncertain = |command: &Command| {
            command
                .argv
                .first()
                .is_some_and(|first| is_uncertain(first) && !self.variables.knows_all_of(first.text()))
        };
        if self.out.commands().iter().any(uncertain) {
            let mut words = BTreeSet::new();
            scan::tokens(text).for_each(|token| scan::names_of(&token, &mut words));
            self.out.nearby = words;
        }
    }

    /// The forms of a command with the values of its variables.
    fn possible(&self, command: &Command) -> Vec<Vec<Word>> {
        let mut lines: Vec<Vec<Word>> = vec![Vec::new()];
        for word in &command.argv {
            let is_expansion =
                word.doubt() == Some(&Doubt::Expansion) && self.variables.knows_some_of(word.text());
            let forms = if is_expansion { self.variables.forms(word.text()) } else { Vec::new() };
            if forms.is_empty() || lines.len() * forms.len() > MAX_FORMS {
                lines.iter_mut().for_each(|line| line.push(word.clone()));
                continue;
            }
            let longer = lines.iter().flat_map(|line| {
                forms.iter().map(move |form| {
                    // The shell splits what a variable outside of quotes becomes.
                    let words = form.split_whitespace().map(|word| match word.contains('$') {
                        true => Word::doubtful(word, Doubt::Expansion),
                        false => Word::literal(word),
                    });
                    line.iter().cloned().chain(words).collect::<Vec<_>>()
                })
            });
            lines = longer.collect();
        }
        let texts = |argv: &[Word]| argv.iter().map(|word| word.text().to_owned()).collect::<Vec<_>>();
        let own = texts(&command.argv);
        lines.retain(|line| !line.is_empty() && texts(line) != own);
        lines
    }
}
