//! What reaches a program that runs its standard input or a script on a descriptor: the text of it where the command
//! line shows that exactly, and otherwise where it comes from. Knows the programs that print a literal text unchanged
//! and those that run what they are fed.

use super::wrap;
use super::{Command, Word};

/// What a command gets on its standard input or from a process substitution.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Input {
    /// Nothing.
    #[default]
    Empty,
    /// Exactly this text.
    Text(String),
    /// Something that cannot be read beforehand, and where it comes from, for people.
    Unread(String),
}

impl Input {
    /// This input as each of several commands gets it that read it together: each may take a part, so none is certain to get
    /// all of it.
    pub(super) fn shared(self) -> Self {
        match self {
            Self::Text(_) => Self::Unread("a part of a text that several commands read".to_owned()),
            other => other,
        }
    }
}

/// The language of what a program is fed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    /// A shell script.
    Shell,
    /// Any other language that can start programs.
    Other,
}

/// What a command prints, given its standard input. `Text` only if it prints exactly that.
pub(super) fn printed(command: &Command) -> Input {
    let unread = || Input::Unread(format!("`{}` prints", command.name()));
    if !command.argv.iter().all(Word::is_literal) {
        return unread();
    }
    let args: Vec<&str> = command.args().collect();
    let program = command.argv.first().map(Word::text).unwrap_or_default();
    match (program, args.as_slice()) {
        ("echo", args) => {
            let is_option = |arg: &&&str| {
                arg.strip_prefix('-')
                    .is_some_and(|letters| !letters.is_empty() && letters.chars().all(|c| "neE".contains(c)))
            };
            let options = args.iter().take_while(is_option).count();
            let text = args.get(options..).unwrap_or_default().join(" ");
            // Whether `echo` decodes backslashes depends on options of the shell.
            if text.contains('\\') { unread() } else { Input::Text(text) }
        }
        ("printf", [format, args @ ..]) => formatted(format, args).map_or_else(unread, Input::Text),
        ("cat", [] | ["-"]) | ("tee", _) if args.iter().all(|arg| *arg == "-" || !arg.starts_with('-')) => {
            command.input.clone()
        }
        _ => unread(),
    }
}

/// What `printf` prints; `None` for anything but `%s`, `%%`, and the escapes of a line end, a tab and a backslash.
fn formatted(format: &str, args: &[&str]) -> Option<String> {
    let mut text = String::new();
    let mut args = args.iter().peekable();
    loop {
        let before = args.len();
        let mut chars = format.chars();
        while let Some(c) = chars.next() {
            match (c, c == '%' || c == '\\') {
                (c, false) => text.push(c),
                ('%', _) => match chars.next()? {
                    's' => text.push_str(args.next().copied().unwrap_or_default()),
                    '%' => text.push('%'),
                    _ => return None,
                },
                _ => match chars.next()? {
                    'n' => text.push('\n'),
                    't' => text.push('\t'),
                    '\\' => text.push('\\'),
                    _ => return None,
                },
            }
        }
        // The format is used again for the arguments that are left.
        if args.peek().is_none() || args.len() == before {
            return Some(text);
        }
    }
}

/// What a program runs that is not in its arguments: its standard input, or what process substitutions give it.
pub(super) fn fed(command: &Command) -> Option<(Language, Vec<&Input>)> {
    let language = language(command)?;
    let files = script_files(command);
    let mut inputs = Vec::new();
    if files.iter().any(|file| names_descriptor(file)) || reads_input(command) {
        inputs.push(&command.input);
        inputs.extend(&command.other_inputs);
    }
    if files.contains(&DESCRIPTOR) {
        inputs.extend(&command.substituted);
    }
    inputs.retain(|input| **input != Input::Empty);
    (!inputs.is_empty()).then_some((language, inputs))
}

/// The word that stands for a process substitution.
pub(super) const DESCRIPTOR: &str = "/dev/fd/63";

/// The files among a command's arguments that it runs.
pub(super) fn script_files(command: &Command) -> Vec<&str> {
    let name = command.name();
    let args: Vec<&str> = command.args().collect();
    let values = |short: &str, long: &[&str]| {
        let mut found = Vec::new();
        for (n, arg) in args.iter().enumerate() {
            let next = args.get(n + 1).copied();
            if let Some(value) = arg.strip_prefix(short).filter(|_| !arg.starts_with("--")) {
                found.extend(if value.is_empty() { next } else { Some(value) });
            } else if arg.starts_with("--") {
                let (option, value) = arg.split_once('=').map_or((*arg, None), |(o, v)| (o, Some(v)));
                if option.len() > 2 && long.iter().any(|long| long.starts_with(option)) {
                    found.extend(value.or(next));
                }
            }
        }
        found
    };
    let operands = || args.iter().copied().filter(|arg| !is_option(arg));
    if wrap::is_shell(name) {
        let mut files = values("--", &["--rcfile", "--init-file"]);
        if !has_short(command, 'c') {
            files.extend(up_to_file(operands()));
        }
        return files;
    }
    match name {
        "." | "source" | "crontab" => operands().take(1).collect(),
        "at" | "batch" => values("-f", &[]),
        "make" | "gmake" | "ninja" | "just" | "rake" | "expect" => {
            values("-f", &["--file", "--makefile", "--justfile", "--rakefile"])
        }
        "gdb" | "lldb" => values("-x", &["--command"]),
        "vim" | "vi" | "nvim" | "ex" | "view" => {
            values("-S", &[]).into_iter().chain(values("-s", &[])).collect()
        }
        "psql" | "mongosh" | "mongo" | "php" | "mysql" => values("-f", &["--file"]),
        _ if name.ends_with("awk") || name.ends_with("sed") => values("-f", &["--file"]),
        "ed" | "emacs" => values("-l", &["--script", "--load"]),
        name if wrap::is_interpreter(name) && !wrap::has_inline_code(command) => up_to_file(operands()),
        _ => Vec::new(),
    }
}

/// The operands up to the first that looks like a file: those before it may be values of options.
fn up_to_file<'a>(operands: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut files = Vec::new();
    for operand in operands {
        files.push(operand);
        if operand == "-" || operand.contains(['/', '.']) {
            break;
        }
    }
    files
}

/// Programs besides shells that run a shell script from their standard input if they get no command.
const SHELLS_WITHOUT_COMMAND: &[&str] = &[
    "ssh",
    "sudo",
    "su",
    "doas",
    "chroot",
    "unshare",
    "nsenter",
    "script",
    "newgrp",
    "sg",
    "runuser",
    "parallel",
    "fakeroot",
    "setpriv",
    "firejail",
    "bwrap",
    "systemd-run",
    "run0",
    "pkexec",
];
/// Programs that read commands from their standard input whatever their operands are.
const READ_COMMANDS: &[&str] =
    &["ed", "ex", "gdb", "lldb", "psql", "mysql", "mariadb", "sqlite", "sqlite3", "dc", "m4", "gnuplot"];

fn language(command: &Command) -> Option<Language> {
    let name = command.name();
    let runs_shell = wrap::is_shell(name)
        || matches!(name, "." | "source" | "at" | "batch")
        || SHELLS_WITHOUT_COMMAND.contains(&name);
    let runs_other = wrap::takes_code(command) || wrap::is_runner(command) || READ_COMMANDS.contains(&name);
    runs_shell.then_some(Language::Shell).or(runs_other.then_some(Language::Other))
}

/// Whether a program runs its standard input although no argument names it.
fn reads_input(command: &Command) -> bool {
    let name = command.name();
    let short = |letter| has_short(command, letter);
    let has_operands = command.args().any(|arg| !is_option(arg));
    if wrap::is_shell(name) {
        return !short('c') && (short('s') || only_option_values(command));
    }
    if SHELLS_WITHOUT_COMMAND.contains(&name) {
        return !wrap::has_command(command);
    }
    match name {
        "." | "source" => false,
        "at" | "batch" => !short('f') && !short('l') && !short('d') && !short('c'),
        "crontab" => !has_operands && !short('l') && !short('e') && !short('r'),
        "vim" | "vi" | "nvim" | "view" => short('e') || short('E') || short('s'),
        name if READ_COMMANDS.contains(&name) => true,
        // A shell inside a container or another environment.
        _ if wrap::is_runner(command) => command.args().any(wrap::is_shell),
        name if wrap::is_interpreter(name) => {
            wrap::is_interactive(command) || !has_operands && !wrap::has_inline_code(command)
        }
        _ => false,
    }
}

fn has_short(command: &Command, letter: char) -> bool {
    command.args().any(|arg| arg.starts_with('-') && !arg.starts_with("--") && arg.contains(letter))
}

/// Whether the operands of a shell are all values of its options: `bash -o pipefail`, `bash --rcfile x`.
fn only_option_values(command: &Command) -> bool {
    let mut args = command.args();
    while let Some(arg) = args.next() {
        if matches!(arg, "-o" | "+o" | "-O" | "+O" | "--rcfile" | "--init-file") {
            args.next();
        } else if !is_option(arg) && !arg.starts_with('+') {
            return false;
        }
    }
    true
}

fn is_option(text: &str) -> bool {
    text.len() > 1 && text.starts_with('-')
}

/// Whether a file name means the standard input or another descriptor.
pub(super) fn names_descriptor(path: &str) -> bool {
    path == "-"
        || path == "/dev/stdin"
        || (path.starts_with("/dev/fd/") && path != DESCRIPTOR)
        || (path.starts_with("/proc/") && path.contains("/fd/"))
}
