//! Wrappers: programs that run other commands, such as `timeout`, `xargs` and shells, and the commands that they run.
//! The table (`wrap/table.rs`) lists each wrapper's own options, which come before the command. Behind an option that
//! it does not list, every word counts as a possible command.

mod table;

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

use self::table::{EVALUATES, FLAGS, INTERPRETERS, RUNNERS, SHELLS, WRAPPERS, Wrapper, WrapperKind};
use super::{Command, Doubt, RedirectKind, Word};

/// Something that a wrapper runs.
pub(super) enum Nested {
    /// A program with arguments.
    Command {
        argv: Vec<Word>,
        /// Whether the command does the same without the wrapper.
        transparent: bool,
    },
    /// A shell script.
    Script(String),
    /// An unknown one of these words.
    AnyOf(Vec<String>),
}

/// The rows of all tables about one program, merged so that one look-up finds them.
#[derive(Default)]
struct Entry {
    wrapper: Option<&'static Wrapper>,
    shell: bool,
    runner: bool,
    evaluates: bool,
    /// For an interpreter, its options that take code.
    interpreter: Option<&'static str>,
}

fn lookup(name: &str) -> Option<&'static Entry> {
    static ENTRIES: LazyLock<FxHashMap<&str, Entry>> = LazyLock::new(|| {
        let mut entries: FxHashMap<&str, Entry> = FxHashMap::default();
        WRAPPERS.iter().for_each(|wrapper| entries.entry(wrapper.name).or_default().wrapper = Some(wrapper));
        SHELLS.iter().for_each(|name| entries.entry(name).or_default().shell = true);
        RUNNERS.iter().for_each(|name| entries.entry(name).or_default().runner = true);
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

pub(super) fn is_interpreter(name: &str) -> bool {
    interpreter(name).is_some()
}

pub(super) fn is_runner(name: &str) -> bool {
    lookup(name).is_some_and(|entry| entry.runner)
}

/// Whether a program runs the command in its arguments, and is not transparent.
pub(super) fn is_wrapper(name: &str) -> bool {
    lookup(name)
        .and_then(|entry| entry.wrapper)
        .is_some_and(|wrapper| wrapper.kind != WrapperKind::Transparent)
}

/// Whether other programs run the value of this environment variable as a command.
pub(super) fn names_program(variable: &str) -> bool {
    let ends = ["PAGER", "EDITOR", "VISUAL", "COMMAND", "BROWSER", "SHELL", "OPEN", "ASKPASS", "DIFF"];
    variable.starts_with("GIT_") || ends.iter().any(|end| variable.ends_with(end))
}

pub(super) fn changes_folder(name: &str) -> bool {
    matches!(name, "cd" | "pushd" | "popd" | "chdir")
}

/// Whether a command runs its standard input, as a script or as arguments.
pub(super) fn reads_script(command: &Command) -> bool {
    let name = command.name();
    matches!(name, "at" | "batch" | "xargs" | "parallel" | "sudo") || is_shell(name) || is_interpreter(name)
}

/// Whether a program takes code of a language other than the shell's as an argument.
pub(super) fn takes_code(command: &Command) -> bool {
    let name = command.name();
    is_interpreter(name)
        || name.ends_with("awk")
        || matches!(name, "sed" | "gsed" | "make" | "gmake" | "vim" | "ex")
}

/// The options of an interpreter that take code. Ignores a version in the name: `python3.11`.
fn interpreter(name: &str) -> Option<&'static str> {
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    lookup(plain)?.interpreter
}

/// Doubts about a command itself, apart from the commands that it runs.
pub(super) fn doubts(command: &Command) -> Vec<Doubt> {
    let name = command.name();
    let mut doubts = Vec::new();
    if lookup(name).is_some_and(|entry| entry.evaluates) {
        doubts.push(Doubt::Evaluates(name.to_owned()));
    }
    if let Some(code) = interpreter(name) {
        let inline = command.args().any(|arg| {
            let short =
                arg.starts_with('-') && !arg.starts_with("--") && arg.chars().any(|c| code.contains(c));
            short
                || arg == "-"
                || arg.starts_with("--e")
                || arg.starts_with("--p")
                || arg.starts_with("--r")
                || arg == "eval"
        });
        if inline
            || command.piped
            || command.redirects.iter().any(|redirect| redirect.kind == RedirectKind::Here)
        {
            doubts.push(Doubt::InlineCode(name.to_owned()));
        }
    }
    if is_shell(name) || is_runner(name) {
        doubts.push(Doubt::Runs(name.to_owned()));
    }
    doubts
}

/// The commands and scripts that a command runs.
pub(super) fn nested(command: &Command) -> Vec<Nested> {
    let name = command.name();
    let args = command.argv.get(1..).unwrap_or_default();
    let mut nested = Vec::new();
    // If the first word expands to nothing, the shell runs the next word.
    let vanishes = |word: &Word| {
        matches!(word.doubt(), Some(Doubt::Expansion | Doubt::Substitution | Doubt::Glob | Doubt::Brace))
    };
    if command.argv.first().is_some_and(vanishes) && !args.is_empty() {
        nested.push(plain(args.to_vec()));
    }
    if is_shell(name) || matches!(name, "su" | "runuser" | "sg" | "script") {
        nested.extend(script_of_shell(args));
        let here = command.redirects.iter().filter(|redirect| redirect.kind == RedirectKind::Here);
        nested.extend(here.map(|redirect| Nested::Script(redirect.target.text().to_owned())));
    } else if name.starts_with("ld-linux") || name.starts_with("ld-musl") || name == "ld.so" {
        // The dynamic loader, which runs the program that it is given.
        let program = args.iter().position(|arg| !arg.text().starts_with('-')).unwrap_or(args.len());
        nested.extend(args.get(program..).filter(|argv| !argv.is_empty()).map(|argv| plain(argv.to_vec())));
    } else if name == "find" || name == "gfind" {
        run_by_find(args, &mut nested);
    } else if name == "fd" || name == "fdfind" {
        let at = args.iter().position(|arg| matches!(arg.text(), "-x" | "-X" | "--exec" | "--exec-batch"));
        nested.extend(at.and_then(|at| args.get(at + 1..)).map(|argv| plain(argv.to_vec())));
    } else if name == "trap" {
        let script = args.iter().find(|arg| !arg.text().starts_with('-'));
        nested.extend(script.map(|script| Nested::Script(script.text().to_owned())));
    } else if name == "git" {
        run_by_git(args, &mut nested);
    } else if name == "tar" || name == "bsdtar" || name == "gtar" {
        let programs =
            ["--checkpoint-action=exec=", "--to-command=", "--use-compress-program=", "--rsh-command="];
        let scripts = args
            .iter()
            .filter_map(|arg| programs.iter().find_map(|program| arg.text().strip_prefix(program)));
        nested.extend(scripts.map(|script| Nested::Script(script.to_owned())));
    } else if is_runner(name)
        || matches!(name, "alias" | "hash" | "mapfile" | "readarray" | "complete" | "compgen" | "bind")
    {
        nested.push(Nested::AnyOf(args.iter().map(|arg| arg.text().to_owned()).collect()));
    } else if let Some(wrapper) = lookup(name).and_then(|entry| entry.wrapper) {
        after_options(wrapper, args, &mut nested);
    }
    nested
}

fn plain(argv: Vec<Word>) -> Nested {
    Nested::Command { argv, transparent: false }
}

/// Skips a wrapper's own options and operands, and adds the command behind them.
fn after_options(wrapper: &Wrapper, args: &[Word], nested: &mut Vec<Nested>) {
    let mut operands = wrapper.operands;
    let mut uncertain = false;
    let mut at = 0;
    while let Some(arg) = args.get(at) {
        let text = arg.text();
        at += 1;
        if text == "--" {
            at += operands;
            break;
        } else if text.starts_with("--") {
            if let Some(script) = text.strip_prefix("--split-string=") {
                nested.push(Nested::Script(script.to_owned()));
            }
            let known = wrapper.long.iter().any(|long| long.starts_with(text));
            at += usize::from(known && !text.contains('='));
            uncertain |= !known && !text.contains('=') && !FLAGS.contains(&text);
        } else if text.len() > 1 && text.starts_with('-') {
            let Some((index, letter)) =
                text.char_indices().skip(1).find(|(_, c)| !wrapper.flags.contains(*c))
            else {
                // Only flags without a value.
                continue;
            };
            let value = text.get(index + letter.len_utf8()..).unwrap_or_default();
            if matches!((wrapper.name, letter), ("env", 'S') | ("flock", 'c')) {
                let value =
                    if value.is_empty() { args.get(at).map(Word::text).unwrap_or_default() } else { value };
                nested.push(Nested::Script(value.to_owned()));
            }
            if wrapper.valued.contains(letter) {
                at += usize::from(value.is_empty());
            } else if wrapper.name == "command" && matches!(letter, 'v' | 'V') {
                // `command -v` only looks the program up.
                return;
            } else {
                uncertain = true;
            }
        } else if wrapper.kind == WrapperKind::Assigning && arg.text().contains('=') {
        } else if operands > 0 {
            operands -= 1;
        } else {
            at -= 1;
            break;
        }
    }
    let rest = args.get(at..).unwrap_or_default();
    if uncertain {
        nested.push(Nested::AnyOf(args.iter().map(|arg| arg.text().to_owned()).collect()));
    }
    if rest.is_empty() {
        return;
    }
    nested.push(match wrapper.kind {
        WrapperKind::Joined => {
            let rest = rest.split(|word| word.text().starts_with(":::")).next().unwrap_or_default();
            Nested::Script(rest.iter().map(Word::text).collect::<Vec<_>>().join(" "))
        }
        kind => Nested::Command {
            argv: rest.to_vec(),
            transparent: kind == WrapperKind::Transparent && !uncertain,
        },
    });
}

/// Scripts in a shell's arguments: `sh -c SCRIPT`, also `-lc`, `-o option -c`, `su - user -c SCRIPT`.
fn script_of_shell(args: &[Word]) -> Vec<Nested> {
    let inline = args.iter().any(|arg| {
        let text = arg.text();
        text == "--command" || (text.starts_with('-') && !text.starts_with("--") && text.contains('c'))
    });
    if let Some(script) = args.iter().find_map(|arg| arg.text().strip_prefix("--command=")) {
        return vec![Nested::Script(script.to_owned())];
    }
    if !inline {
        return Vec::new();
    }
    // Which word is the script depends on the options before it, so every word that is no option counts as one.
    let words = args.iter().filter(|arg| !arg.text().starts_with(['-', '+']));
    words.map(|arg| Nested::Script(arg.text().to_owned())).collect()
}

/// Commands that `find` runs: `-exec COMMAND ;` and its variants.
fn run_by_find(args: &[Word], nested: &mut Vec<Nested>) {
    let mut at = 0;
    while let Some(arg) = args.get(at) {
        at += 1;
        if !matches!(arg.text(), "-exec" | "-execdir" | "-ok" | "-okdir") {
            continue;
        }
        let rest = args.get(at..).unwrap_or_default();
        let ends = |n: usize, arg: &Word| {
            arg.text() == ";"
                || (arg.text() == "+" && n > 0 && rest.get(n - 1).is_some_and(|arg| arg.text() == "{}"))
        };
        let length = rest.iter().enumerate().position(|(n, arg)| ends(n, arg)).unwrap_or(rest.len());
        nested.push(plain(rest.iter().take(length).cloned().collect()));
        at += length;
    }
}

/// Commands that git runs: `git -c alias.x='!script'`, `bisect run`, and options whose value is a command.
fn run_by_git(args: &[Word], nested: &mut Vec<Nested>) {
    for (n, arg) in args.iter().enumerate() {
        let text = arg.text();
        let next = || args.get(n + 1).map(Word::text);
        let script = match text {
            "-c" | "--config" => next().and_then(|setting| setting.split_once('=')).map(|(_, value)| value),
            "-x" | "--exec" | "--extcmd" | "--upload-pack" | "--receive-pack" | "--tree-filter"
            | "--index-filter" | "--env-filter" | "--msg-filter" | "--commit-filter" => next(),
            _ => [
                "--exec=",
                "--extcmd=",
                "--upload-pack=",
                "--receive-pack=",
                "--open-files-in-pager=",
                "-O",
                "-x",
                "-c",
                "ext::",
            ]
            .iter()
            .find_map(|option| text.strip_prefix(option))
            .filter(|script| !script.is_empty()),
        };
        if let Some(script) = script {
            nested.push(Nested::Script(script.trim_start_matches('!').replace("% ", " ")));
        }
    }
    let words: Vec<&str> = args.iter().map(Word::text).collect();
    if let Some(at) =
        words.windows(2).position(|pair| matches!(pair, ["bisect", "run"] | ["submodule", "foreach"]))
    {
        let rest = args.get(at + 2..).unwrap_or_default();
        nested.push(Nested::Script(rest.iter().map(Word::text).collect::<Vec<_>>().join(" ")));
    }
}
