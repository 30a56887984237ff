//! Commands that run other commands, and what they run. The table (`wrap/table.rs`) says how each one's own options are told from the
//! command behind them; where an option is not in it, every word is taken for a possible command.

mod table;

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

use self::table::{EVALUATES, FLAGS, How, INTERPRETERS, RUNNERS, SHELLS, WRAPPERS, Wrapper};
use super::{Command, Doubt, RedirectKind, Word};

/// What a command runs.
pub(super) enum Inside {
    /// A program with arguments.
    Command {
        /// The words.
        argv: Vec<Word>,
        /// Whether it does the same without the wrapper.
        transparent: bool,
    },
    /// A shell's script.
    Script(String),
    /// Some of these words.
    Unsure(Vec<String>),
}

/// What is in the tables about a name.
#[derive(Default)]
struct Known {
    wrapper: Option<&'static Wrapper>,
    shell: bool,
    runner: bool,
    evaluates: bool,
    /// The options behind which code stands.
    interpreter: Option<&'static str>,
}

fn known(name: &str) -> Option<&'static Known> {
    static KNOWN: LazyLock<FxHashMap<&str, Known>> = LazyLock::new(|| {
        let mut known: FxHashMap<&str, Known> = FxHashMap::default();
        WRAPPERS.iter().for_each(|wrapper| known.entry(wrapper.name).or_default().wrapper = Some(wrapper));
        SHELLS.iter().for_each(|name| known.entry(name).or_default().shell = true);
        RUNNERS.iter().for_each(|name| known.entry(name).or_default().runner = true);
        EVALUATES.iter().for_each(|name| known.entry(name).or_default().evaluates = true);
        INTERPRETERS.iter().for_each(|(name, code)| known.entry(name).or_default().interpreter = Some(code));
        known
    });
    KNOWN.get(name)
}

pub(super) fn is_shell(name: &str) -> bool {
    known(name).is_some_and(|known| known.shell)
}

pub(super) fn is_interpreter(name: &str) -> bool {
    interpreter(name).is_some()
}

pub(super) fn is_runner(name: &str) -> bool {
    known(name).is_some_and(|known| known.runner)
}

/// Whether this is a program that runs what its arguments say.
pub(super) fn is_wrapper(name: &str) -> bool {
    known(name).and_then(|known| known.wrapper).is_some_and(|wrapper| wrapper.how != How::Transparent)
}

/// Whether a variable says which program is run by others.
pub(super) fn names_program(variable: &str) -> bool {
    let ends = ["PAGER", "EDITOR", "VISUAL", "COMMAND", "BROWSER", "SHELL", "OPEN", "ASKPASS", "DIFF"];
    variable.starts_with("GIT_") || ends.iter().any(|end| variable.ends_with(end))
}

pub(super) fn changes_folder(name: &str) -> bool {
    matches!(name, "cd" | "pushd" | "popd" | "chdir")
}

/// Whether a command runs what comes on its input.
pub(super) fn takes_script(command: &Command) -> bool {
    let name = command.name();
    matches!(name, "at" | "batch" | "xargs" | "parallel" | "sudo") || is_shell(name) || is_interpreter(name)
}

/// Whether a program is given code in a language of its own.
pub(super) fn takes_code(command: &Command) -> bool {
    let name = command.name();
    is_interpreter(name)
        || name.ends_with("awk")
        || matches!(name, "sed" | "gsed" | "make" | "gmake" | "vim" | "ex")
}

/// Also with a version: `python3.11`.
fn interpreter(name: &str) -> Option<&'static str> {
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    known(plain)?.interpreter
}

/// What is doubtful about a command by itself, whatever it runs.
pub(super) fn doubts(command: &Command) -> Vec<Doubt> {
    let name = command.name();
    let mut doubts = Vec::new();
    if known(name).is_some_and(|known| known.evaluates) {
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

/// What a command runs.
pub(super) fn inside(command: &Command) -> Vec<Inside> {
    let name = command.name();
    let args = command.argv.get(1..).unwrap_or_default();
    let mut inside = Vec::new();
    // What becomes of nothing leaves the next word to be the command.
    let vanishes = |word: &Word| {
        matches!(word.doubt(), Some(Doubt::Expansion | Doubt::Substitution | Doubt::Glob | Doubt::Brace))
    };
    if command.argv.first().is_some_and(vanishes) && !args.is_empty() {
        inside.push(plain(args.to_vec()));
    }
    if is_shell(name) || matches!(name, "su" | "runuser" | "sg" | "script") {
        inside.extend(script_of_shell(args));
        let here = command.redirects.iter().filter(|redirect| redirect.kind == RedirectKind::Here);
        inside.extend(here.map(|redirect| Inside::Script(redirect.target.text().to_owned())));
    } else if name.starts_with("ld-linux") || name.starts_with("ld-musl") || name == "ld.so" {
        // The loader of programs, by itself.
        let program = args.iter().position(|arg| !arg.text().starts_with('-')).unwrap_or(args.len());
        inside.extend(args.get(program..).filter(|argv| !argv.is_empty()).map(|argv| plain(argv.to_vec())));
    } else if name == "find" || name == "gfind" {
        run_by_find(args, &mut inside);
    } else if name == "fd" || name == "fdfind" {
        let at = args.iter().position(|arg| matches!(arg.text(), "-x" | "-X" | "--exec" | "--exec-batch"));
        inside.extend(at.and_then(|at| args.get(at + 1..)).map(|argv| plain(argv.to_vec())));
    } else if name == "trap" {
        let script = args.iter().find(|arg| !arg.text().starts_with('-'));
        inside.extend(script.map(|script| Inside::Script(script.text().to_owned())));
    } else if name == "git" {
        run_by_git(args, &mut inside);
    } else if name == "tar" || name == "bsdtar" || name == "gtar" {
        let programs =
            ["--checkpoint-action=exec=", "--to-command=", "--use-compress-program=", "--rsh-command="];
        let scripts = args
            .iter()
            .filter_map(|arg| programs.iter().find_map(|program| arg.text().strip_prefix(program)));
        inside.extend(scripts.map(|script| Inside::Script(script.to_owned())));
    } else if is_runner(name)
        || matches!(name, "alias" | "hash" | "mapfile" | "readarray" | "complete" | "compgen" | "bind")
    {
        inside.push(Inside::Unsure(args.iter().map(|arg| arg.text().to_owned()).collect()));
    } else if let Some(wrapper) = known(name).and_then(|known| known.wrapper) {
        behind_options(wrapper, args, &mut inside);
    }
    inside
}

fn plain(argv: Vec<Word>) -> Inside {
    Inside::Command { argv, transparent: false }
}

fn behind_options(wrapper: &Wrapper, args: &[Word], inside: &mut Vec<Inside>) {
    let mut operands = wrapper.operands;
    let mut unsure = false;
    let mut at = 0;
    while let Some(arg) = args.get(at) {
        let text = arg.text();
        at += 1;
        if text == "--" {
            at += operands;
            break;
        } else if text.starts_with("--") {
            if let Some(script) = text.strip_prefix("--split-string=") {
                inside.push(Inside::Script(script.to_owned()));
            }
            let known = wrapper.long.iter().any(|long| long.starts_with(text));
            at += usize::from(known && !text.contains('='));
            unsure |= !known && !text.contains('=') && !FLAGS.contains(&text);
        } else if text.len() > 1 && text.starts_with('-') {
            let Some((index, letter)) =
                text.char_indices().skip(1).find(|(_, c)| !wrapper.flags.contains(*c))
            else {
                // `command -v` and its like only look.
                continue;
            };
            let value = text.get(index + letter.len_utf8()..).unwrap_or_default();
            if matches!((wrapper.name, letter), ("env", 'S') | ("flock", 'c')) {
                let value =
                    if value.is_empty() { args.get(at).map(Word::text).unwrap_or_default() } else { value };
                inside.push(Inside::Script(value.to_owned()));
            }
            if wrapper.valued.contains(letter) {
                at += usize::from(value.is_empty());
            } else if wrapper.name == "command" && matches!(letter, 'v' | 'V') {
                return;
            } else {
                unsure = true;
            }
        } else if wrapper.how == How::Assigning && arg.text().contains('=') {
        } else if operands > 0 {
            operands -= 1;
        } else {
            at -= 1;
            break;
        }
    }
    let rest = args.get(at..).unwrap_or_default();
    if unsure {
        inside.push(Inside::Unsure(args.iter().map(|arg| arg.text().to_owned()).collect()));
    }
    if rest.is_empty() {
        return;
    }
    inside.push(match wrapper.how {
        How::Joined => {
            let rest = rest.split(|word| word.text().starts_with(":::")).next().unwrap_or_default();
            Inside::Script(rest.iter().map(Word::text).collect::<Vec<_>>().join(" "))
        }
        how => Inside::Command { argv: rest.to_vec(), transparent: how == How::Transparent && !unsure },
    });
}

/// `sh -c SCRIPT`, also `-lc`, `-o option -c`, `su - user -c SCRIPT`.
fn script_of_shell(args: &[Word]) -> Vec<Inside> {
    let inline = args.iter().any(|arg| {
        let text = arg.text();
        text == "--command" || (text.starts_with('-') && !text.starts_with("--") && text.contains('c'))
    });
    if let Some(script) = args.iter().find_map(|arg| arg.text().strip_prefix("--command=")) {
        return vec![Inside::Script(script.to_owned())];
    }
    if !inline {
        return Vec::new();
    }
    // Which word is the script depends on the options before it: each that can be is one.
    let words = args.iter().filter(|arg| !arg.text().starts_with(['-', '+']));
    words.map(|arg| Inside::Script(arg.text().to_owned())).collect()
}

fn run_by_find(args: &[Word], inside: &mut Vec<Inside>) {
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
        inside.push(plain(rest.iter().take(length).cloned().collect()));
        at += length;
    }
}

/// `git -c alias.x='!script'`, `bisect run`, and options whose value is a command.
fn run_by_git(args: &[Word], inside: &mut Vec<Inside>) {
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
            inside.push(Inside::Script(script.trim_start_matches('!').replace("% ", " ")));
        }
    }
    let words: Vec<&str> = args.iter().map(Word::text).collect();
    if let Some(at) =
        words.windows(2).position(|pair| matches!(pair, ["bisect", "run"] | ["submodule", "foreach"]))
    {
        let rest = args.get(at + 2..).unwrap_or_default();
        inside.push(Inside::Script(rest.iter().map(Word::text).collect::<Vec<_>>().join(" ")));
    }
}
