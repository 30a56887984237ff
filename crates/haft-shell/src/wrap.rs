//! Wrappers: programs that run other commands, such as `timeout`, `xargs` and shells, and the commands that they run.
//! The table (`wrap/table.rs`) lists each wrapper's own options, which come before the command. Behind an option that
//! it does not list, every word counts as a possible command.

mod nested;
mod table;

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

pub(super) use self::nested::{Nested, has_command, nested};
use self::table::{
    EVALUATES, INTERPRETERS, RUNNERS, Runner, RunnerKind, SHELLS, WRAPPERS, Wrapper, WrapperKind,
};
use super::{Command, Doubt, RedirectKind};

/// The rows of all tables about one program, merged so that one look-up finds them.
#[derive(Default)]
struct Entry {
    wrapper: Option<&'static Wrapper>,
    shell: bool,
    runner: Option<&'static Runner>,
    evaluates: bool,
    /// For an interpreter, its options that take code.
    interpreter: Option<&'static str>,
}

fn lookup(name: &str) -> Option<&'static Entry> {
    static ENTRIES: LazyLock<FxHashMap<&str, Entry>> = LazyLock::new(|| {
        let mut entries: FxHashMap<&str, Entry> = FxHashMap::default();
        WRAPPERS.iter().for_each(|wrapper| entries.entry(wrapper.name).or_default().wrapper = Some(wrapper));
        SHELLS.iter().for_each(|name| entries.entry(name).or_default().shell = true);
        RUNNERS.iter().for_each(|runner| entries.entry(runner.name).or_default().runner = Some(runner));
        EVALUATES.iter().for_each(|name| entries.entry(name).or_default().evaluates = true);
        INTERPRETERS
            .iter()
            .for_each(|(name, code)| entries.entry(name).or_default().interpreter = Some(code));
        entries
    });
    ENTRIES.get(name)
}

pub(super) fn is_shell(name: &str) -> bool {
    lookup(name).is_some_and(|entry| entry.shell)
}

/// Whether a shell reads scripts otherwise than bash does.
pub(super) fn is_foreign_shell(name: &str) -> bool {
    matches!(name, "zsh" | "fish" | "csh" | "tcsh" | "yash" | "elvish" | "nu" | "pwsh")
}

pub(super) fn is_interpreter(name: &str) -> bool {
    interpreter(name).is_some()
}

/// Whether a command runs other programs that it fetches or configures itself.
pub(super) fn is_runner(command: &Command) -> bool {
    lookup(command.name()).and_then(|entry| entry.runner).is_some_and(|runner| {
        runner.kind != RunnerKind::Subcommand
            || command.args().find(|arg| !arg.starts_with('-')).is_some_and(|arg| runner.after.contains(&arg))
    })
}

/// Whether a program runs the command in its arguments, and is not transparent.
pub(super) fn is_wrapper(name: &str) -> bool {
    lookup(name)
        .and_then(|entry| entry.wrapper)
        .is_some_and(|wrapper| wrapper.kind != WrapperKind::Transparent)
}

/// Whether other programs run the value of this environment variable as a command.
pub(super) fn names_program(variable: &str) -> bool {
    let ends =
        ["PAGER", "EDITOR", "VISUAL", "COMMAND", "BROWSER", "SHELL", "OPEN", "ASKPASS", "DIFF", "ENV", "SSH"];
    variable.starts_with("GIT_")
        || matches!(variable, "PS0" | "PS1" | "PS2" | "PS4")
        || ends.iter().any(|end| variable.ends_with(end))
}

/// Whether other programs run the value of this environment variable as a command or read it as a script at once.
pub(super) fn names_command(variable: &str) -> bool {
    let ends = [
        "PAGER",
        "EDITOR",
        "VISUAL",
        "COMMAND",
        "BROWSER",
        "ASKPASS",
        "EXTERNAL_DIFF",
        "BASH_ENV",
        "GIT_SSH",
    ];
    ends.iter().any(|end| variable.ends_with(end)) || matches!(variable, "ENV" | "PS0" | "PS1" | "PS4")
}

/// Whether a builtin evaluates its arguments as names of variables or as arithmetic: bash runs the substitutions in
/// their array indices.
pub(super) fn evaluates_names(name: &str) -> bool {
    matches!(
        name,
        "test"
            | "["
            | "let"
            | "read"
            | "printf"
            | "declare"
            | "typeset"
            | "local"
            | "readonly"
            | "export"
            | "unset"
            | "mapfile"
            | "readarray"
            | "getopts"
            | "wait"
    )
}

pub(super) fn changes_folder(name: &str) -> bool {
    matches!(name, "cd" | "pushd" | "popd" | "chdir")
}

/// Whether a program takes code of a language other than the shell's as an argument.
pub(super) fn takes_code(command: &Command) -> bool {
    let name = command.name();
    is_interpreter(name)
        || name.ends_with("awk")
        || matches!(name, "sed" | "gsed" | "make" | "gmake" | "just" | "ninja" | "vim" | "view" | "ex")
}

/// Whether the operands of a command are targets of a build.
pub(super) fn takes_targets(command: &Command) -> bool {
    lookup(command.name())
        .and_then(|entry| entry.runner)
        .is_some_and(|runner| runner.kind == RunnerKind::Targets)
}

/// The options of an interpreter that take code. Ignores a version in the name: `python3.11`.
fn interpreter(name: &str) -> Option<&'static str> {
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    lookup(name).and_then(|entry| entry.interpreter).or_else(|| lookup(plain)?.interpreter)
}

/// Whether the arguments of an interpreter contain code.
pub(super) fn has_inline_code(command: &Command) -> bool {
    let Some(code) = interpreter(command.name()) else { return false };
    if runs_code_module(command) {
        return true;
    }
    command.args().any(|arg| {
        let short = arg.starts_with('-') && !arg.starts_with("--") && arg.chars().any(|c| code.contains(c));
        short || arg.starts_with("--e") || arg.starts_with("--p") || arg.starts_with("--r") || arg == "eval"
    })
}

/// Whether Python is to run a module that takes code in its arguments: `python3 -m timeit 'import os'`.
fn runs_code_module(command: &Command) -> bool {
    const MODULES: &[&str] = &[
        "timeit", "pdb", "bdb", "code", "runpy", "trace", "profile", "cProfile", "IPython", "asyncio", "pty",
    ];
    let name = command.name();
    if !name.starts_with("python") && !name.starts_with("pypy") {
        return false;
    }
    let args: Vec<&str> = command.args().collect();
    let after = |n: usize| args.get(n + 1).copied().unwrap_or_default();
    args.iter().enumerate().any(|(n, arg)| {
        // `-m` takes the rest of its word, or the next word; other letters may come before it.
        let value = arg.strip_prefix('-').filter(|rest| !rest.starts_with('-')).and_then(|rest| {
            let (_, value) = rest.split_once('m')?;
            Some(if value.is_empty() { after(n) } else { value })
        });
        value.is_some_and(|value| MODULES.contains(&value.split('.').next().unwrap_or(value)))
    })
}

/// Whether an interpreter reads code from its input although it has code or a file: an interactive mode or a debugger.
pub(super) fn is_interactive(command: &Command) -> bool {
    const LETTERS: &[(&str, char)] = &[
        ("perl", 'd'),
        ("python", 'i'),
        ("pypy", 'i'),
        ("node", 'i'),
        ("nodejs", 'i'),
        ("lua", 'i'),
        ("luajit", 'i'),
        ("julia", 'i'),
        ("php", 'a'),
    ];
    let name = command.name();
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    let letter = LETTERS.iter().find(|(interpreter, _)| *interpreter == plain).map(|(_, letter)| *letter);
    letter.is_some_and(|letter| {
        command.args().any(|arg| arg.starts_with('-') && !arg.starts_with("--") && arg.contains(letter))
    })
}

/// Doubts about a command itself, apart from the commands that it runs.
pub(super) fn doubts(command: &Command) -> Vec<Doubt> {
    let name = command.name();
    let mut doubts = Vec::new();
    if lookup(name).is_some_and(|entry| entry.evaluates) {
        doubts.push(Doubt::Evaluates(name.to_owned()));
    }
    let fed =
        || command.piped || command.redirects.iter().any(|redirect| redirect.kind == RedirectKind::Here);
    if is_interpreter(name) && (has_inline_code(command) || command.args().any(|arg| arg == "-") || fed()) {
        doubts.push(Doubt::InlineCode(name.to_owned()));
    }
    if is_shell(name) || is_runner(command) {
        doubts.push(Doubt::Runs(name.to_owned()));
    }
    doubts
}
