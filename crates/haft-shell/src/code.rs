//! Code of other languages than the shell's, in the arguments of an interpreter or on its input. Nothing here parses
//! these languages: a list of words tells code that can start programs from code that only computes.

use super::{Command, Word, sed, wrap};

/// Names with which languages start programs, evaluate text or reach what can.
#[rustfmt::skip]
const STARTS: &[&str] = &[
    "eval", "fork", "vfork", "qx", "getattr", "globals", "locals", "vars", "compile", "subprocess", "child_process",
    "ctypes", "pty", "runpy", "importlib", "binding", "constructor", "Function", "globalThis", "syscmd", "esyscmd",
    "passthru", "proc_open", "call_user_func", "send", "public_send", "const_get", "instance_eval", "class_eval",
    "syscall", "shell", "open3", "ProcessBuilder", "Runtime", "Deno", "Bun", "posix", "startfile", "Invoke",
];
/// Beginnings of such names: `execSync`, `spawnSync`, `popen2`, `system`, `shell_exec`, `__import__`.
const BEGINNINGS: &[&str] = &["exec", "spawn", "posix_spawn", "popen", "Popen", "system", "shell_", "__"];
/// Names of Python that classes and modules define, and through which nothing else can be reached.
#[rustfmt::skip]
const HARMLESS_DUNDERS: &[&str] = &[
    "__name__", "__main__", "__file__", "__doc__", "__version__", "__author__", "__all__", "__future__", "__init__",
    "__post_init__", "__new__", "__del__", "__str__", "__repr__", "__len__", "__iter__", "__next__", "__enter__",
    "__exit__", "__aenter__", "__aexit__", "__aiter__", "__anext__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__",
    "__ge__", "__hash__", "__bool__", "__int__", "__float__", "__add__", "__sub__", "__mul__", "__truediv__",
    "__contains__", "__getitem__", "__setitem__", "__delitem__", "__call__", "__slots__",
];
/// Programs whose own commands run others behind a `!`.
const WITH_BANG: &[&str] = &[
    "vim", "vi", "nvim", "view", "ex", "ed", "dc", "gdb", "lldb", "psql", "mysql", "mariadb", "sqlite",
    "sqlite3", "gnuplot",
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
        _ => texts(command).iter().any(|text| can_start(name, text)),
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

/// Whether code for an interpreter can start programs.
fn can_start(interpreter: &str, text: &str) -> bool {
    let is = |names: &[&str]| names.iter().any(|name| interpreter.starts_with(name));
    let (is_python, is_script) = (is(&["python", "pypy"]), is(&["node", "bun", "deno"]));
    // Statements of a database and patterns, which start nothing.
    let text =
        if is_python { text.replace(".execute", "").replace("re.compile", "") } else { text.to_owned() };
    let names = text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|name| !name.is_empty());
    let mut names = names.filter(|name| !(is_python && HARMLESS_DUNDERS.contains(name)));
    let starts =
        |name: &str| STARTS.contains(&name) || BEGINNINGS.iter().any(|beginning| name.starts_with(beginning));
    // A pipe as the name of a file, a property that is put together, a module whose name is.
    names.any(starts)
        || ["|\"", "|'", "\"|", "'|", "%x", "]("].iter().any(|part| text.contains(part))
        || (text.contains('`') && !is_script)
        || (text.contains('!') && WITH_BANG.contains(&interpreter))
        || ["require(", "import("].iter().any(|call| !takes_literals(&text, call))
}

/// Whether all calls of a function have a literal text as their only argument.
fn takes_literals(text: &str, call: &str) -> bool {
    text.split(call).skip(1).all(|behind| {
        let quote = behind.chars().next().filter(|c| matches!(c, '"' | '\''));
        let rest = quote.and_then(|quote| behind.get(1..)?.split_once(quote));
        rest.is_some_and(|(_, after)| after.starts_with(')'))
    })
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
