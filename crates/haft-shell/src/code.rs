//! Code of other languages than the shell's, in the arguments of an interpreter or on its input. Nothing here parses
//! these languages: a list of words tells code that can start programs from code that only computes.

use super::{Command, Word, sed, wrap};

/// Parts of names with which languages start programs or evaluate text.
#[rustfmt::skip]
const STARTS: &[&str] = &[
    "system", "popen", "subprocess", "exec", "spawn", "fork", "eval", "child_process", "shell", "compile",
    "__", "importlib", "getattr", "globals", "locals", "ctypes", "pty", "runpy", "require(", "constructor",
    "Function", "binding", "Process", "send", "syscall", "qx", "%x", "`", "syscmd", "ProcessBuilder", "Runtime",
    "!", "\\!", "Invoke", "Start-", "open3", "do(", "Deno.", "Bun.", "os.startfile", "posix",
];

/// The code that a command gets, in its arguments and on its input.
pub(super) fn texts(command: &Command) -> Vec<&str> {
    let name = command.name();
    let mut texts: Vec<&str> = command.code.iter().map(String::as_str).collect();
    let in_arguments =
        wrap::has_inline_code(command) || name.ends_with("awk") || matches!(name, "sed" | "gsed");
    if in_arguments {
        texts.extend(command.args());
    }
    texts
}

/// The words of a text in any language that could be names of programs.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_alphanumeric() || "_-./+".contains(c);
    text.split(move |c| !is_part(c)).filter(|word| !word.is_empty())
}

/// The reason why the code of a command may start programs that the text does not show.
pub(super) fn may_start_programs(command: &Command) -> Option<String> {
    let name = command.name();
    if !wrap::takes_code(command) {
        return None;
    }
    if wrap::has_inline_code(command)
        && let Some(word) = command.argv.iter().skip(1).find(|word| expands(word))
    {
        return Some(format!("`{name}` runs code that `{}` is put into", word.raw()));
    }
    if name.ends_with("awk")
        && let Some(program) = awk_program(command).filter(|program| expands(program))
    {
        return Some(format!("the program for `{name}` is put together with `{}`", program.raw()));
    }
    let starts = match name {
        "sed" | "gsed" => sed::may_run(command),
        name if name.ends_with("awk") => texts(command).iter().any(|text| awk_starts(text)),
        "make" | "gmake" | "just" | "ninja" => command.code.iter().any(|text| !text.trim().is_empty()),
        _ => texts(command).iter().any(|text| can_start(text)),
    };
    starts.then(|| format!("the code for `{name}` can start other programs"))
}

fn expands(word: &Word) -> bool {
    !word.is_literal() && word.text().contains(['$', '`'])
}

/// The operand of awk that is its program.
fn awk_program(command: &Command) -> Option<&Word> {
    let mut words = command.argv.iter().skip(1);
    while let Some(word) = words.next() {
        match word.text() {
            "-F" | "-v" => drop(words.next()),
            "-f" | "--file" => return None,
            text if text.starts_with('-') => {}
            _ => return Some(word),
        }
    }
    None
}

/// Whether code of an unknown language can start programs.
pub(super) fn can_start(text: &str) -> bool {
    let without_comparison = text.replace("!=", "").replace("#!", "");
    STARTS.iter().any(|part| without_comparison.contains(part))
}

/// Whether an awk program runs a command: `system`, `getline`, or a pipe.
fn awk_starts(text: &str) -> bool {
    if ["system", "getline", "@"].iter().any(|part| text.contains(part)) {
        return true;
    }
    // A bar between slashes belongs to a pattern, and two are an "or".
    let mut pieces = text.split('/');
    let outside: String = match text.contains('"') {
        true => text.to_owned(),
        false => pieces.by_ref().step_by(2).collect(),
    };
    outside.replace("||", "").contains('|')
}
