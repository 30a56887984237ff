//! Scripts that a command line writes and then runs: `echo rm x > s; sh s`. What is written counts as the input of the
//! program that runs the file.

use std::collections::BTreeMap;

use super::feed::{self, Input, Language};
use super::walk::Walk;
use super::{Command, Doubt, RedirectKind, Word, scan, wrap};

/// Files that `make` reads if it is not given one.
const MAKEFILES: [&str; 3] = ["Makefile", "makefile", "GNUmakefile"];

/// The files that commands write, by base name, with what is written to them.
type Written = BTreeMap<String, Vec<Input>>;

/// Where the shell looks for programs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Search {
    /// In the folders of the environment.
    Usual,
    /// Wherever the command line says.
    Anywhere,
}

impl Walk {
    /// Follows the files that the command line writes and runs.
    pub(super) fn run_written_files(&mut self) {
        let commands = self.out.commands().to_vec();
        let mut written = Written::new();
        // A copy of a file that is written later, in a loop, needs a second look.
        for _ in 0..2 {
            for command in &commands {
                self.note_written(command, &mut written);
            }
        }
        if written.is_empty() {
            return;
        }
        // With another `PATH`, a bare name may be a file that is written.
        let sets_path =
            commands.iter().flat_map(|command| &command.assignments).any(|set| set.name == "PATH");
        let search = if sets_path { Search::Anywhere } else { Search::Usual };
        for (index, command) in commands.iter().enumerate() {
            for file in run_files(command, search) {
                let Some(inputs) = written.get(scan::basename(file)) else { continue };
                let is_shell = wrap::is_shell(command.name()) || !wrap::takes_code(command);
                let language = if is_shell { Language::Shell } else { Language::Other };
                let input = match inputs.as_slice() {
                    // A program of its own may begin with `#!`, which names any interpreter.
                    [Input::Text(text)] if !(file == command_text(command) && text.starts_with("#!")) => {
                        Input::Text(text.clone())
                    }
                    _ => Input::Unread(format!("it writes to `{file}` first")),
                };
                self.run_text(command.name(), index, language, &input);
            }
        }
    }

    fn note_written(&self, command: &Command, written: &mut Written) {
        let mut note = |file: &str, input: Input| {
            let inputs = written.entry(scan::basename(file).to_owned()).or_default();
            if !inputs.contains(&input) {
                inputs.push(input);
            }
        };
        let unread = || Input::Unread("another part of it writes".to_owned());
        let printed = || if self.names_are_certain() { feed::printed(command) } else { unread() };
        for redirect in &command.redirects {
            let target = redirect.target.text();
            match redirect.kind {
                _ if target.starts_with("/dev/") => {}
                RedirectKind::Write => note(target, printed()),
                RedirectKind::Append | RedirectKind::ReadWrite => note(target, unread()),
                _ => {}
            }
        }
        let operands: Vec<&str> = command.args().filter(|arg| !arg.starts_with('-')).collect();
        let edits = command.args().any(|arg| arg.starts_with("-i") || arg.starts_with("--in-place"));
        match command.name() {
            "tee" if command.args().any(|arg| arg.starts_with('-')) => {
                operands.iter().for_each(|file| note(file, unread()));
            }
            "tee" => operands.iter().for_each(|file| note(file, printed())),
            "dd" => {
                command.args().filter_map(|arg| arg.strip_prefix("of=")).for_each(|file| note(file, unread()))
            }
            "sed" | "gsed" | "perl" | "ruby" if edits => {
                operands.iter().for_each(|file| note(file, unread()))
            }
            "curl" | "wget" => output_files(command).iter().for_each(|file| note(file, unread())),
            "cp" | "mv" | "ln" | "install" => {
                let Some((target, sources)) = operands.split_last() else { return };
                for source in sources {
                    let copied = match written.get(scan::basename(source)) {
                        Some(_) => true,
                        // A program of the system under another name, or what a descriptor gives.
                        None => {
                            ["/dev/", "/proc/"].iter().any(|folder| source.starts_with(folder))
                                || source.contains("bin/")
                        }
                    };
                    if copied {
                        for file in [target, source] {
                            let inputs = written.entry(scan::basename(file).to_owned()).or_default();
                            inputs.push(unread());
                        }
                    }
                }
            }
            _ => {}
        }
    }
}

fn command_text(command: &Command) -> &str {
    command.argv.first().map(Word::text).unwrap_or_default()
}

/// The files that a command runs: its own program if that is a path, and scripts among its arguments.
fn run_files(command: &Command, search: Search) -> Vec<&str> {
    let mut files = feed::script_files(command);
    let program = command_text(command);
    if program.contains('/')
        || search == Search::Anywhere
        || command.argv.first().is_some_and(|first| first.doubt() == Some(&Doubt::Expansion))
    {
        files.push(program);
    }
    if matches!(command.name(), "make" | "gmake") {
        files.extend(MAKEFILES);
    }
    files
}

/// The values of `curl -o` and `wget -O`, and the names of the addresses, under which they may be stored.
fn output_files(command: &Command) -> Vec<&str> {
    let args: Vec<&str> = command.args().collect();
    let mut files = Vec::new();
    for (n, arg) in args.iter().enumerate() {
        let next = args.get(n + 1).copied();
        if let Some((_, file)) = arg.split_once('=').filter(|_| arg.starts_with("--output")) {
            files.push(file);
        } else if arg.starts_with("--output") {
            files.extend(next);
        } else if let Some(letters) = arg.strip_prefix('-').filter(|_| !arg.starts_with("--")) {
            if let Some(at) = letters.find(['o', 'O']) {
                let attached = letters.get(at + 1..).unwrap_or_default();
                files.extend(if attached.is_empty() { next } else { Some(attached) });
            }
        } else {
            files.push(arg);
        }
    }
    files
}
