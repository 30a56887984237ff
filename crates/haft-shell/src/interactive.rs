//! Commands that wait for a person to type, and what to run instead.

use super::feed::Input;
use super::{Command, ParsedCommand, scan, wrap};

/// A command that waits for a person, or does not end by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interactive {
    /// The program, with its subcommand where that matters.
    pub what: String,
    /// Advice: what to run instead.
    pub instead: &'static str,
    /// Whether it does not end by itself, without waiting for a person. Such a command can run in the background.
    pub endless: bool,
}

/// Editors: programs that wait for a person with any arguments, unless [`is_scripted`] says otherwise.
#[rustfmt::skip]
const EDITORS: &[&str] = &[
    "vi", "vim", "nvim", "nano", "emacs", "pico", "joe", "micro", "helix", "hx", "ed", "ex", "code", "view",
    "vimdiff",
];
/// Programs that show a page at a time on a terminal, and print everything elsewhere.
const PAGERS: &[&str] = &["less", "more", "most", "pg", "man", "info"];

/// Programs that are interactive unless [`is_scripted`] says otherwise.
static ALWAYS: &[(&[&str], &str)] = &[
    (EDITORS, "change the file with an editing tool, or with `sed -i`"),
    (&["man", "info"], "add `| cat`, or run the command with `--help`"),
    (PAGERS, "use `cat`, `head` or `tail`"),
    (
        &["top", "htop", "btop", "atop", "iotop", "glances", "nvtop"],
        "use `ps aux --sort=-%cpu | head`, or `top -b -n 1`",
    ),
    (&["telnet", "ftp", "sftp", "nc", "ncat"], "use `curl`, or give the input with `<`"),
    (&["tmux", "screen", "byobu"], "run the command by itself, in the background if need be"),
    (&["passwd", "visudo", "vipw", "chsh", "chfn"], "ask the user to do it"),
    (
        &["fzf", "dialog", "whiptail", "mc", "ranger", "nnn", "lazygit", "tig", "gitk", "gdb", "lldb", "pdb"],
        "use a command that prints its result",
    ),
    (&["read", "select"], "give the value as an argument or a variable"),
    (&["cat", "tee"], "name a file, or give the text with `|`, `<` or `<<`"),
];

/// Programs that are interactive unless their input is redirected or one of these options is given.
static WITHOUT_OPTIONS: &[(&[&str], &[&str], &str)] = &[
    (&["mysql", "mariadb"], &["-e", "--execute"], "pass the statement with `-e`"),
    (&["psql"], &["-c", "-f", "-l", "--command", "--file", "--list"], "pass the statement with `-c`"),
    (&["mongo", "mongosh"], &["--eval", "-f", "--file"], "pass the script with `--eval`"),
    (&["sqlcmd"], &["-Q", "-q", "-i"], "pass the statement with `-Q`"),
];

/// The parts of a command that wait for a person, or do not end by themselves.
pub fn interactive(understood: &ParsedCommand) -> Vec<Interactive> {
    let mut found: Vec<Interactive> = Vec::new();
    for command in understood.commands() {
        let endless = endless_alternative(command);
        let Some(instead) = endless.or_else(|| alternative(command, understood)) else { continue };
        let second = command
            .args()
            .find(|arg| !arg.starts_with('-'))
            .filter(|_| matches!(command.name(), "git" | "npm" | "yarn" | "docker" | "cargo"));
        let what =
            second.map_or_else(|| command.name().to_owned(), |second| format!("{} {second}", command.name()));
        let one = Interactive { what, instead, endless: endless.is_some() };
        if !found.contains(&one) {
            found.push(one);
        }
    }
    found
}

/// What to run instead of a command that does not end by itself, unless something else ends it or nothing waits for it.
fn endless_alternative(command: &Command) -> Option<&'static str> {
    if command.background || command.limited {
        return None;
    }
    let has =
        |options: &[&str]| command.args().any(|arg| options.iter().any(|option| arg.starts_with(option)));
    let follows =
        || short_option(command, 'f') || short_option(command, 'F') || has(&["--follow", "--retry"]);
    match command.name() {
        "tail" if follows() && !has(&["--pid"]) => {
            Some("use `tail -n 100`, or run it in the background or under `timeout`")
        }
        "journalctl" if follows() => Some("leave `-f` away, or run it in the background or under `timeout`"),
        "watch" => Some("run the command once"),
        "ssh" if short_option(command, 'N') && !short_option(command, 'f') => {
            Some("run it in the background")
        }
        _ => None,
    }
}

/// Whether something gives a command its standard input.
fn has_input(command: &Command) -> bool {
    let redirected = |redirect: &super::Redirect| {
        matches!(redirect.kind, super::RedirectKind::Read | super::RedirectKind::Here)
    };
    command.piped || command.input != Input::Empty || command.redirects.iter().any(redirected)
}

fn short_option(command: &Command, letter: char) -> bool {
    let options = command.args().take_while(|arg| *arg != "--");
    options.into_iter().any(|arg| arg.starts_with('-') && !arg.starts_with("--") && arg.contains(letter))
}

/// Whether a program that usually waits for a person does not with these arguments, or where its output goes.
fn is_scripted(command: &Command) -> bool {
    let has_input = has_input(command);
    let short = |letter| short_option(command, letter);
    let has = |options: &[&str]| command.args().any(|arg| options.contains(&arg));
    let sets = |names: &[&str]| {
        command.assignments.iter().any(|assignment| names.contains(&assignment.name.as_str()))
    };
    match command.name() {
        "ed" | "ex" | "gdb" | "lldb" if has_input => true,
        "ex" | "vi" | "vim" | "nvim" | "view" | "vimdiff" => {
            let args: Vec<&str> = command.args().collect();
            let quits = |script: &str| {
                let script = script.trim_start_matches(':').trim_end_matches('!');
                matches!(script, "q" | "qa" | "qall" | "wq" | "wqa" | "x" | "xa" | "cq")
            };
            let behind_option = args.windows(2).any(|pair| matches!(pair, ["-c", script] if quits(script)));
            (short('e') || short('E') || command.name() == "ex") && short('s')
                || has(&["--headless"])
                || behind_option
                || args.iter().filter_map(|arg| arg.strip_prefix('+')).any(quits)
        }
        "emacs" => has(&["--batch", "-batch", "--script", "-script"]),
        "code" => command.args().next().is_some_and(|arg| arg.starts_with("--")),
        "man" => {
            command.captured || ['k', 'f', 'w', 'P'].into_iter().any(short) || sets(&["PAGER", "MANPAGER"])
        }
        "info" => command.captured || short('o') || has(&["--output"]),
        "less" | "more" | "most" | "pg" => command.captured,
        "top" | "htop" => short('b'),
        "nc" | "ncat" => has_input || short('z') || short('l') && command.background,
        "telnet" | "ftp" => has_input,
        "sftp" => has_input || short('b'),
        "tmux" => {
            !matches!(
                command.args().find(|arg| !arg.starts_with('-')),
                None | Some("new" | "new-session" | "attach" | "attach-session" | "a")
            ) || short('d')
        }
        "screen" => short('d') || short('D') || has(&["-ls", "-list"]) || short('X'),
        "passwd" => short('S') || short('l') || short('d') || has(&["--stdin", "--status"]),
        "visudo" => short('c'),
        "fzf" => short('f') || command.args().any(|arg| arg.starts_with("--filter")),
        "gdb" | "lldb" => short('b') || has(&["--batch"]),
        "read" => has_input || short('t'),
        "select" => has_input,
        "cat" => {
            has_input
                || command.args().any(|arg| {
                    arg != "-" && (!arg.starts_with('-') || arg.len() > 2 && arg.starts_with("--"))
                })
        }
        "tee" => has_input,
        _ => false,
    }
}

/// What to run instead of a command; `None` if it does not wait for a person.
fn alternative(command: &Command, understood: &ParsedCommand) -> Option<&'static str> {
    let name = command.name();
    let args: Vec<&str> = command.args().collect();
    let has_input = has_input(command);
    let has = |word: &str| args.contains(&word);
    let short = |letter: char| short_option(command, letter);
    if matches!(args.as_slice(), ["--version" | "-V" | "--help" | "-h"]) {
        return None;
    }
    if let Some((_, instead)) = ALWAYS.iter().find(|(names, _)| names.contains(&name)) {
        return (!is_scripted(command)).then_some(instead);
    }
    if let Some((_, options, instead)) = WITHOUT_OPTIONS.iter().find(|(names, ..)| names.contains(&name)) {
        let has_option = args.iter().any(|arg| options.iter().any(|option| arg.starts_with(option)));
        return (!has_input && !has_option).then_some(instead);
    }
    let operands = args.iter().filter(|arg| !arg.starts_with('-')).count();
    match name {
        "ssh" => (!wrap::has_command(command) && !has_input && !short('N'))
            .then_some("give the command to run behind the host, with `-o BatchMode=yes`"),
        "sudo" => (!short('n') && !short('S'))
            .then_some("it may ask for a password: use `sudo -n`, or ask the user"),
        "su" => (!short('c')).then_some("pass the command with `-c`; it may ask for a password"),
        "redis-cli" => (operands == 0 && !has_input).then_some("give the command as arguments"),
        "sqlite3" => (operands < 2 && !has_input).then_some("give the statement behind the file"),
        "git" => git_alternative(&args, &has, &short, Surroundings::of(command, understood, has_input)),
        "bash" | "sh" | "zsh" | "fish" | "dash" | "ksh" if operands == 0 && !has_input && !short('c') => {
            Some("pass the script with `-c`")
        }
        "bc" | "dc" if operands == 0 && !has_input && !short('e') => Some("pipe the sum into it"),
        name if wrap::is_interpreter(name) => interpreter_alternative(&args, operands, has_input),
        "irb" | "ghci" | "ipython" | "iex" | "jshell" | "spark-shell" | "pry" | "utop" | "sbcl" | "clj" => {
            (operands == 0 && !has_input).then_some("run a script")
        }
        "docker" | "podman" if (short('t') || has("--tty")) && (short('i') || has("--interactive")) => {
            Some("leave `-it` away")
        }
        "crontab" if short('e') => Some("give a file to `crontab`"),
        // A question that its input answers.
        _ if has_input => None,
        "npm" | "yarn" | "pnpm" if has("init") && !(short('y') || has("--yes")) => Some("use `init -y`"),
        "npm" | "yarn" | "pnpm" if has("login") || has("adduser") => Some("set a token in the environment"),
        "apt" | "apt-get" | "yum" | "dnf"
            if (has("install") || has("upgrade") || has("remove") || has("dist-upgrade"))
                && !(short('y') || has("--yes")) =>
        {
            Some("add `-y`")
        }
        "pacman" if !has("--noconfirm") => Some("add `--noconfirm`"),
        "pip" | "pip3" if has("uninstall") && !(short('y') || has("--yes")) => Some("add `-y`"),
        "gh" if has("login") => Some("set `GH_TOKEN`"),
        "rm" | "cp" | "mv" if short('i') => Some("leave `-i` away"),
        "find" if has("-ok") || has("-okdir") => Some("use `-exec`"),
        _ => None,
    }
}

/// What decides whether git opens an editor or asks.
struct Surroundings {
    /// Whether an editor is set that needs no person.
    has_editor: bool,
    /// Whether an editor for lists of commits is set that needs no person.
    has_sequence_editor: bool,
    /// Whether something answers its questions.
    has_input: bool,
}

impl Surroundings {
    fn of(command: &Command, understood: &ParsedCommand, has_input: bool) -> Self {
        let is_set = |names: &[&str], settings: &[&str]| {
            let unattended = |value: &str| {
                let program = value.split_whitespace().next().unwrap_or_default();
                !EDITORS.contains(&scan::basename(program.trim_matches(['\'', '"'])))
            };
            let assigned = understood.commands().iter().any(|other| {
                let exported = matches!(other.name(), "export" | "env" | "declare" | "typeset");
                let written = other.args().filter(|_| exported).filter_map(|arg| arg.split_once('='));
                let own = other.assignments.iter().filter_map(|assignment| {
                    Some((assignment.name.as_str(), assignment.value.as_ref()?.text()))
                });
                own.chain(written).any(|(name, value)| names.contains(&name) && unattended(value))
            });
            let configured = command.args().filter_map(|arg| arg.split_once('=')).any(|(name, value)| {
                settings.iter().any(|setting| name.eq_ignore_ascii_case(setting)) && unattended(value)
            });
            assigned || configured
        };
        let editors = ["GIT_EDITOR", "EDITOR", "VISUAL"];
        let has_editor = is_set(&editors, &["core.editor", "-ccore.editor"]);
        let has_sequence_editor = is_set(&["GIT_SEQUENCE_EDITOR"], &["sequence.editor"]) || has_editor;
        Self { has_editor, has_sequence_editor, has_input }
    }
}

fn interpreter_alternative(args: &[&str], operands: usize, has_input: bool) -> Option<&'static str> {
    // Inline code that reads from the terminal.
    let asks = ["input(", "raw_input(", "getpass", "readline(", "gets", "<STDIN>", "prompt("];
    if args.iter().any(|arg| asks.iter().any(|ask| arg.contains(ask))) && !has_input {
        return Some("give the value as an argument, or pipe it in");
    }
    let interactive = args.iter().any(|arg| *arg == "-i" || *arg == "--interactive");
    let bare = operands == 0 && args.iter().all(|arg| !arg.starts_with('-'));
    ((bare || interactive) && !has_input).then_some("run a script, or pass code with `-c` or `-e`")
}

fn git_alternative(
    args: &[&str],
    has: &impl Fn(&str) -> bool,
    short: &impl Fn(char) -> bool,
    surroundings: Surroundings,
) -> Option<&'static str> {
    let edits = |quiet: &[&str]| !args.iter().any(|arg| quiet.iter().any(|quiet| arg.starts_with(quiet)));
    let Surroundings { has_editor, has_sequence_editor, has_input } = surroundings;
    if has("rebase") && (short('i') || has("--interactive")) && !has_sequence_editor {
        return Some("set `GIT_SEQUENCE_EDITOR`, or use `git rebase --onto` or `git cherry-pick`");
    }
    let stashes = has("stash") && !["show", "list", "apply", "pop", "drop"].into_iter().any(has);
    if (has("add") || has("checkout") || has("reset") || stashes || has("commit") || has("restore"))
        && (has("-p") || has("--patch") || (has("add") && (short('i') || short('e'))))
        && !has_input
    {
        return Some("name the files");
    }
    if has("commit")
        && !has_editor
        && !short('m')
        && !short('F')
        && !short('C')
        && edits(&["--message", "--file", "--no-edit", "--fixup", "--reuse-message", "--squash", "--dry-run"])
    {
        return Some("pass the message with `-m`");
    }
    if has("tag") && short('a') && !short('m') && !short('F') && !has_editor {
        return Some("pass the message with `-m`");
    }
    if has("mergetool") || has("difftool") || has("citool") || has("gui") {
        return Some("use `git diff` and edit the files");
    }
    if has("clean") && short('i') && !has_input {
        return Some("use `git clean -n`, then `-f`");
    }
    (has("config") && (short('e') || has("--edit"))).then_some("set the value with `git config NAME VALUE`")
}
