//! Simple commands, the commands that they run, and what they run from their input.

use super::super::bindings::{self, Binding};
use super::super::feed::{self, Input, Language};
use super::super::wrap::{self, Nested};
use super::super::{Command, Cwd, Doubt, RedirectKind, Word, WrappedBy};
use super::{MAX_DEPTH, MAX_WORDS, Walk};

impl Walk {
    /// Adds a simple command, and the commands that it runs if it is a wrapper. Returns its index.
    pub(in super::super) fn add_command(&mut self, command: Command) -> usize {
        if wrap::changes_folder(command.name()) {
            self.change_folder(&command);
        }
        for doubt in wrap::doubts(&command) {
            self.out.add_doubt(doubt);
        }
        self.variables.learn(&command);
        for name in bindings::names_read(&command) {
            self.out.bind(name, Binding::Unknown);
        }
        self.words += command.argv.len();
        let index = self.out.commands.len();
        self.out.commands.push(command.clone());
        if wrap::evaluates_names(command.name()) {
            command.args().for_each(|arg| self.evaluated_text(arg));
        }
        self.run_input(&command, index);
        let mut nested = wrap::nested(&command);
        // Some wrappers take a whole script as one word.
        if command.by.is_some()
            && let Some(first) = command.argv.first().filter(|first| first.is_literal())
            && first.text().contains(char::is_whitespace)
        {
            nested.push(Nested::Script { text: first.text().to_owned(), expands: None });
        }
        if nested.is_empty() {
            return index;
        }
        if self.depth > MAX_DEPTH || self.words > MAX_WORDS {
            self.out.add_doubt(Doubt::TooDeep);
            command.args().for_each(|word| self.out.scan(word));
            return index;
        }
        self.depth += 1;
        for nested in nested {
            self.add_nested(nested, &command);
        }
        self.depth -= 1;
        index
    }

    /// Adds something that a command runs.
    fn add_nested(&mut self, nested: Nested, command: &Command) {
        let name = command.name();
        match nested {
            Nested::Command { argv, transparent } => {
                if !transparent {
                    self.out.add_doubt(Doubt::Runs(name.to_owned()));
                }
                // `xargs` keeps its input for itself.
                let input = if name == "xargs" { Input::Empty } else { command.input.clone() };
                self.add_command(Command {
                    argv,
                    cwd: command.cwd.clone(),
                    background: command.background,
                    piped: command.piped,
                    captured: command.captured,
                    limited: command.limited || name == "timeout",
                    input,
                    assignments: if transparent { command.assignments.clone() } else { Vec::new() },
                    by: Some(WrappedBy { name: name.to_owned(), transparent }),
                    ..Command::default()
                });
            }
            Nested::Script { text, expands } => {
                if let Some(part) = expands {
                    self.out
                        .add_doubt(Doubt::Unread(format!("`{name}` runs a text that `{part}` is put into")));
                }
                let at = self.out.commands.len();
                self.nested_script(name, &text, command.input.clone());
                if command.limited || command.background {
                    for nested in self.out.commands.iter_mut().skip(at) {
                        nested.limited |= command.limited;
                        nested.background |= command.background;
                    }
                }
            }
            Nested::AnyOf(words) => {
                self.out.add_doubt(Doubt::Runs(name.to_owned()));
                words.iter().for_each(|word| self.out.scan(word));
            }
        }
    }

    /// Walks a script that a command runs.
    fn nested_script(&mut self, by: &str, text: &str, input: Input) {
        if wrap::is_foreign_shell(by) {
            let what = format!("`{by}` runs a script in a language of its own");
            self.out.add_doubt(Doubt::Unread(what));
        }
        self.out.add_doubt(Doubt::Runs(by.to_owned()));
        let at = self.out.commands.len();
        self.in_subshell(|walk| walk.sharing(input, false, |walk| walk.script(text)));
        let by = WrappedBy { name: by.to_owned(), transparent: false };
        for command in self.out.commands.iter_mut().skip(at) {
            command.by.get_or_insert_with(|| by.clone());
        }
    }

    /// Follows what a command runs from its standard input or from a process substitution.
    fn run_input(&mut self, command: &Command, index: usize) {
        if let (Input::Text(text), "xargs" | "parallel") = (&command.input, command.name()) {
            self.out.scan(text);
        }
        let Some((language, inputs)) = feed::fed(command) else { return };
        for input in inputs {
            let unread = Input::Unread("it gets as its input".to_owned());
            // A crontab, or a shell within a container: neither a script nor code that is looked at.
            let is_code = language == Language::Shell || wrap::takes_code(command);
            let input = if is_code { input } else { &unread };
            self.run_text(command.name(), index, language, input);
        }
    }

    /// Follows a text that a program runs.
    pub(in super::super) fn run_text(&mut self, name: &str, index: usize, language: Language, input: &Input) {
        match (input, language) {
            (Input::Empty, _) => {}
            (Input::Text(text), Language::Shell) if self.depth <= MAX_DEPTH => {
                self.depth += 1;
                self.nested_script(name, text, Input::Empty);
                self.depth -= 1;
            }
            (Input::Text(text), _) => {
                if let Some(command) = self.out.commands.get_mut(index) {
                    command.code.push(text.clone());
                }
            }
            (Input::Unread(origin), language) => {
                self.out.add_doubt(Doubt::Unread(format!("`{name}` runs what {origin}")));
                if language == Language::Shell {
                    self.scan_commands_up_to(index);
                }
            }
        }
    }

    /// Scans the words of the commands so far: any of them may be printed and run.
    fn scan_commands_up_to(&mut self, index: usize) {
        let from = self.scanned_up_to;
        self.scanned_up_to = from.max(index + 1);
        let mut found = Vec::new();
        for command in self.out.commands.iter().take(index + 1).skip(from) {
            let documents = command.redirects.iter().filter(|redirect| redirect.kind == RedirectKind::Here);
            let texts = command.args().chain(documents.map(|document| document.target.text()));
            found.extend(texts.map(str::to_owned));
        }
        found.iter().for_each(|text| self.out.scan(text));
    }

    fn change_folder(&mut self, command: &Command) {
        let target = match command.argv.as_slice() {
            [_, target] => Some(target),
            [_, dashes, target] if dashes.text() == "--" => Some(target),
            _ => None,
        };
        let known = target.filter(|target| command.name() == "cd" && target.is_literal());
        let known = known.map(Word::text).filter(|target| !target.is_empty() && !target.starts_with('-'));
        self.cwd = match (known, &self.cwd) {
            (Some(target), _) if target.starts_with('/') => Cwd::At(target.to_owned()),
            (Some(target), Cwd::Start) => Cwd::At(target.to_owned()),
            (Some(target), Cwd::At(at)) => Cwd::At(format!("{at}/{target}")),
            _ => {
                self.out.add_doubt(Doubt::Folder);
                Cwd::Unknown
            }
        };
    }
}
