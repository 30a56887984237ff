//! The commands that a command runs: in its arguments, behind its options, or as values of its options.

use super::super::{Command, Doubt, Word};
use super::table::{FLAGS, RUNNING_OPTIONS, Runner, RunnerKind, Wrapper, WrapperKind};
use super::{is_runner, is_shell, lookup};

/// Something that a wrapper runs.
pub(crate) enum Nested {
    /// A program with arguments.
    Command {
        argv: Vec<Word>,
        /// Whether the command does the same without the wrapper.
        transparent: bool,
    },
    /// A shell script.
    Script {
        text: String,
        /// The part that the shell expands before it passes the script on: the text is not all of the script.
        expands: Option<String>,
    },
    /// An unknown one of these words.
    AnyOf(Vec<String>),
}

impl Nested {
    /// A script that a word contains.
    fn script(word: &Word) -> Self {
        Self::Script { text: word.text().to_owned(), expands: expands(word) }
    }

    /// A script that is a part of a word.
    fn part(text: &str, word: &Word) -> Self {
        Self::Script { text: text.to_owned(), expands: expands(word) }
    }

    /// Words that are joined to a script.
    fn joined(words: &[Word]) -> Self {
        let text = words.iter().map(Word::text).collect::<Vec<_>>().join(" ");
        Self::Script { text, expands: words.iter().find_map(expands) }
    }
}

/// The source of a word whose text depends on the run. Backslashes and quotes do not.
fn expands(word: &Word) -> Option<String> {
    let is_certain = matches!(word.doubt(), None | Some(Doubt::Backslash | Doubt::Quoting | Doubt::Tilde));
    (!is_certain).then(|| word.raw().to_owned())
}

/// The word for an argument that comes from the input of a program, such as `xargs`, or from names that it finds.
fn argument() -> Word {
    Word::doubtful("$ARGUMENT", Doubt::Expansion)
}

/// Replaces the words that contain a placeholder, such as `{}`.
fn fill(argv: &[Word], placeholder: &str) -> Vec<Word> {
    let filled = |word: &Word| if word.text().contains(placeholder) { argument() } else { word.clone() };
    argv.iter().map(filled).collect()
}

/// The commands and scripts that a command runs.
pub(crate) fn nested(command: &Command) -> Vec<Nested> {
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
    in_options(name, args, &mut nested);
    if is_shell(name) || matches!(name, "su" | "runuser" | "sg" | "script") {
        nested.extend(script_of_shell(args));
        if !is_shell(name) {
            // `runuser -u USER COMMAND`, `sg GROUP COMMAND`.
            nested.push(any_of(args));
        }
    } else if name.starts_with("ld-linux") || name.starts_with("ld-musl") || name == "ld.so" {
        // The dynamic loader, which runs the program that it is given.
        let program = args.iter().position(|arg| !arg.text().starts_with('-')).unwrap_or(args.len());
        nested.extend(args.get(program..).filter(|argv| !argv.is_empty()).map(|argv| plain(argv.to_vec())));
    } else if name == "find" || name == "gfind" {
        run_by_find(args, &mut nested);
    } else if name == "fd" || name == "fdfind" {
        let at = args.iter().position(|arg| matches!(arg.text(), "-x" | "-X" | "--exec" | "--exec-batch"));
        nested.extend(at.and_then(|at| args.get(at + 1..)).map(|argv| plain(fill(argv, "{"))));
    } else if name == "trap" {
        nested.extend(args.iter().find(|arg| !arg.text().starts_with('-')).map(Nested::script));
    } else if name == "git" {
        run_by_git(args, &mut nested);
    } else if name == "socat" {
        let is_program = |kind: &str| ["EXEC", "SYSTEM", "SHELL"].contains(&kind.to_uppercase().as_str());
        let programs = args.iter().filter_map(|arg| Some((arg, arg.text().split_once(':')?)));
        nested.extend(
            programs
                .filter(|(_, (kind, _))| is_program(kind))
                .map(|(arg, (_, script))| Nested::part(script, arg)),
        );
    } else if matches!(name, "hyperfine" | "concurrently") {
        nested.extend(args.iter().filter(|arg| !arg.text().starts_with('-')).map(Nested::script));
    } else if matches!(name, "alias" | "hash" | "mapfile" | "readarray" | "complete" | "compgen" | "bind") {
        nested.push(any_of(args));
    } else if let Some(runner) = lookup(name).and_then(|entry| entry.runner).filter(|_| is_runner(command)) {
        run_by_runner(runner, args, &mut nested);
    } else if let Some(wrapper) = lookup(name).and_then(|entry| entry.wrapper) {
        after_options(wrapper, args, &mut nested);
    }
    nested
}

/// Whether a wrapper, or a program such as `su`, is given a command to run; values of its options do not count.
pub(crate) fn has_command(command: &Command) -> bool {
    let args = command.argv.get(1..).unwrap_or_default();
    let mut found = script_of_shell(args);
    if let Some(wrapper) = lookup(command.name()).and_then(|entry| entry.wrapper) {
        found.clear();
        after_options(wrapper, args, &mut found);
    }
    found.iter().any(|nested| !matches!(nested, Nested::AnyOf(_)))
}

fn plain(argv: Vec<Word>) -> Nested {
    Nested::Command { argv, transparent: false }
}

fn any_of(words: &[Word]) -> Nested {
    Nested::AnyOf(words.iter().map(|word| word.text().to_owned()).collect())
}

/// Adds the values of options that are commands: `tar -I COMMAND`, `split --filter=COMMAND`, `npm exec -c COMMAND`.
fn in_options(name: &str, args: &[Word], nested: &mut Vec<Nested>) {
    let Some((_, short, long)) = RUNNING_OPTIONS.iter().find(|(names, ..)| names.contains(&name)) else {
        return;
    };
    // A setting `NAME=COMMAND`, and an action `exec=COMMAND`.
    let value = |text: &str, word: &Word| match text.split_once('=') {
        Some((setting, script)) if matches!(name, "ssh" | "scp" | "sftp") => {
            let runs = setting.to_lowercase().contains("command");
            Nested::Script { text: script.to_owned(), expands: expands(word).filter(|_| runs) }
        }
        _ => Nested::part(text.strip_prefix("exec=").unwrap_or(text), word),
    };
    for (n, arg) in args.iter().enumerate() {
        let text = arg.text();
        let next = args.get(n + 1);
        if text.starts_with("--") {
            let (option, attached) = text.split_once('=').map_or((text, None), |(o, v)| (o, Some(v)));
            if option.len() > 2 && long.iter().any(|long| long.starts_with(option)) {
                nested.extend(match attached {
                    Some(attached) => Some(value(attached, arg)),
                    None => next.map(|next| value(next.text(), next)),
                });
            }
            continue;
        }
        // `tar` takes its first word as option letters even without a dash.
        let letters = text.strip_prefix('-').or((n == 0 && name.contains("tar")).then_some(text));
        let Some(letters) = letters else { continue };
        let Some(at) = letters.find(|letter| short.contains(letter)) else { continue };
        let attached = letters.get(at + 1..).unwrap_or_default();
        if !attached.is_empty() && text.starts_with('-') {
            nested.push(value(attached, arg));
        }
        // Behind letters without a dash, the values stand in the order of their letters.
        let earlier = letters.chars().take(at).filter(|letter| "fCTXbgKLNV".contains(*letter)).count();
        let skipped = if text.starts_with('-') { 0 } else { earlier };
        nested.extend(args.get(n + 1 + skipped).map(|next| value(next.text(), next)));
    }
}

/// Adds the command of a runner, which stands behind its options or one of its subcommands.
fn run_by_runner(runner: &Runner, args: &[Word], nested: &mut Vec<Nested>) {
    if runner.kind == RunnerKind::Targets {
        let values = args.iter().filter_map(|arg| Some((arg, arg.text().split_once('=')?)));
        nested.push(Nested::AnyOf(values.map(|(_, (_, value))| value.to_owned()).collect()));
        return;
    }
    let start = match runner.after {
        [] => Some(0),
        after => args.iter().position(|arg| after.contains(&arg.text())).map(|at| at + 1),
    };
    let Some(words) = start.and_then(|start| args.get(start..)) else { return };
    nested.push(any_of(words));
    if matches!(runner.kind, RunnerKind::Command | RunnerKind::Subcommand) {
        let program = words.iter().position(|word| !word.text().starts_with('-'));
        nested.extend(program.and_then(|at| words.get(at..)).map(|argv| plain(argv.to_vec())));
    }
}

/// Skips a wrapper's own options and operands, and adds the command behind them.
fn after_options(wrapper: &Wrapper, args: &[Word], nested: &mut Vec<Nested>) {
    let mut operands = wrapper.operands;
    let mut uncertain = false;
    // What `xargs` replaces by its input; without it, the input follows the command.
    let mut placeholder = None;
    let mut at = 0;
    while let Some(arg) = args.get(at) {
        let text = arg.text();
        at += 1;
        if text == "--" {
            at += operands;
            break;
        } else if text.starts_with("--") {
            let (option, value) = text.split_once('=').map_or((text, None), |(o, v)| (o, Some(v)));
            if option.len() > 3 && "--split-string".starts_with(option) {
                nested.extend(match value {
                    Some(value) => Some(Nested::part(value, arg)),
                    None => args.get(at).map(Nested::script),
                });
            }
            if wrapper.name == "xargs" && "--replace".starts_with(option) {
                placeholder = Some(value.unwrap_or("{}").to_owned());
            }
            let known = wrapper.long.iter().any(|long| long.starts_with(text));
            at += usize::from(known && value.is_none());
            uncertain |= !known && value.is_none() && !FLAGS.contains(&text);
        } else if text.len() > 1 && text.starts_with('-') {
            if wrapper.name == "xargs" && text.starts_with("-i") {
                placeholder = Some(text.get(2..).filter(|text| !text.is_empty()).unwrap_or("{}").to_owned());
                continue;
            }
            let Some((index, letter)) =
                text.char_indices().skip(1).find(|(_, c)| !wrapper.flags.contains(*c))
            else {
                // Only flags without a value.
                continue;
            };
            let value = text.get(index + letter.len_utf8()..).unwrap_or_default();
            let valued = || if value.is_empty() { args.get(at).map(Word::text) } else { Some(value) };
            if matches!((wrapper.name, letter), ("env", 'S') | ("flock", 'c')) {
                let word = if value.is_empty() { args.get(at).unwrap_or(arg) } else { arg };
                nested.push(Nested::part(valued().unwrap_or_default(), word));
            }
            if matches!((wrapper.name, letter), ("xargs", 'I' | 'J')) {
                placeholder = valued().map(str::to_owned);
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
        nested.push(any_of(args));
    }
    if rest.is_empty() {
        return;
    }
    nested.push(match (wrapper.kind, wrapper.name) {
        (_, "parallel") => return run_by_parallel(rest, nested),
        (_, "xargs") => {
            let argv = match placeholder {
                Some(placeholder) if !placeholder.is_empty() => fill(rest, &placeholder),
                _ => rest.iter().cloned().chain([argument()]).collect(),
            };
            plain(argv)
        }
        (WrapperKind::Joined, _) => Nested::joined(rest),
        (kind, _) => Nested::Command {
            argv: rest.to_vec(),
            transparent: kind == WrapperKind::Transparent && !uncertain,
        },
    });
}

/// GNU parallel: `parallel COMMAND ::: ARGUMENTS`, or `parallel ::: COMMANDS`.
fn run_by_parallel(words: &[Word], nested: &mut Vec<Nested>) {
    let is_separator = |word: &Word| word.text().starts_with(":::");
    let length = words.iter().position(is_separator).unwrap_or(words.len());
    let (command, arguments) = words.split_at(length);
    nested.push(any_of(arguments));
    if command.is_empty() {
        nested.extend(arguments.iter().filter(|word| !is_separator(word)).map(Nested::script));
        return;
    }
    // The arguments follow the command, so that one without a placeholder is still certain.
    let filled = fill(command, "{");
    nested.push(if filled.iter().any(|word| word.raw() == argument().raw()) {
        plain(filled)
    } else {
        Nested::joined(command)
    });
}

/// Scripts in a shell's arguments: `sh -c SCRIPT`, also `-lc`, `-o option -c`, `su - user -c SCRIPT`.
fn script_of_shell(args: &[Word]) -> Vec<Nested> {
    let inline = args.iter().any(|arg| {
        let text = arg.text();
        text == "--command" || (text.starts_with('-') && !text.starts_with("--") && text.contains('c'))
    });
    let attached = |arg: &Word| arg.text().strip_prefix("--command=").map(|script| Nested::part(script, arg));
    if let Some(script) = args.iter().find_map(attached) {
        return vec![script];
    }
    if !inline {
        return Vec::new();
    }
    // Which word is the script depends on the options before it, so every word that is no option counts as one; those
    // behind the first are usually its arguments.
    let words = args.iter().filter(|arg| !arg.text().starts_with(['-', '+']));
    words
        .enumerate()
        .map(|(n, arg)| match (n, Nested::script(arg)) {
            (1.., Nested::Script { text, .. }) => Nested::Script { text, expands: None },
            (_, script) => script,
        })
        .collect()
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
        nested.push(plain(fill(rest.get(..length).unwrap_or_default(), "{}")));
        at += length;
    }
}

/// Parts of the names of git settings whose value git runs.
#[rustfmt::skip]
const RUN_SETTINGS: &[&str] = &[
    "alias.", "pager", "editor", "command", "cmd", "fsmonitor", "hookspath", "askpass", "helper", "textconv",
    "external", "driver", "program", "tool", "filter", "pack", "hook", "proxy", "insteadof", "include",
    "template", "trailer",
];

/// Commands that git runs: `git -c alias.x='!script'`, `bisect run`, and options whose value is a command.
fn run_by_git(args: &[Word], nested: &mut Vec<Nested>) {
    for (n, arg) in args.iter().enumerate() {
        let text = arg.text();
        let next = args.get(n + 1);
        let setting = |word: &Word, text: &str| {
            let (name, value) = text.split_once('=')?;
            let name = name.to_lowercase();
            let runs = RUN_SETTINGS.iter().any(|part| name.contains(part));
            runs.then(|| (value.to_owned(), expands(word)))
        };
        let script = match text {
            "-c" | "--config" => next.and_then(|next| setting(next, next.text())),
            "-x" | "--exec" | "--extcmd" | "--upload-pack" | "--receive-pack" | "--tree-filter"
            | "--index-filter" | "--env-filter" | "--msg-filter" | "--commit-filter" => {
                next.map(|next| (next.text().to_owned(), expands(next)))
            }
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
            .filter(|script| !script.is_empty())
            .map(|script| (script.to_owned(), expands(arg))),
        };
        if let Some((script, expands)) = script {
            nested.push(Nested::Script { text: script.trim_start_matches('!').replace("% ", " "), expands });
        }
    }
    let words: Vec<&str> = args.iter().map(Word::text).collect();
    if let Some(at) =
        words.windows(2).position(|pair| matches!(pair, ["bisect", "run"] | ["submodule", "foreach"]))
    {
        nested.push(Nested::joined(args.get(at + 2..).unwrap_or_default()));
    }
}
