//! Commands that wait for a person to type, and what to run instead.

use super::{Command, ParsedCommand, wrap};

/// A command that waits for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interactive {
    /// The program, with its subcommand where that matters.
    pub what: String,
    /// Advice: what to run instead.
    pub instead: &'static str,
}

/// Programs that are always interactive.
static ALWAYS: &[(&[&str], &str)] = &[
    (
        &[
            "vi", "vim", "nvim", "nano", "emacs", "pico", "joe", "micro", "helix", "hx", "ed", "ex", "code",
            "view", "vimdiff",
        ],
        "change the file with an editing tool, or with `sed -i`",
    ),
    (&["less", "more", "most", "pg"], "use `cat`, `head` or `tail`"),
    (&["man", "info"], "add `| cat`, or run the command with `--help`"),
    (
        &["top", "htop", "btop", "atop", "iotop", "glances", "nvtop"],
        "use `ps aux --sort=-%cpu | head`, or `top -b -n 1`",
    ),
    (&["watch"], "run the command once"),
    (&["telnet", "ftp", "sftp", "nc", "ncat"], "use `curl`, or give the input with `<`"),
    (&["tmux", "screen", "byobu"], "run the command by itself, in the background if need be"),
    (&["passwd", "visudo", "vipw", "chsh", "chfn"], "ask the user to do it"),
    (
        &["fzf", "dialog", "whiptail", "mc", "ranger", "nnn", "lazygit", "tig", "gitk", "gdb", "lldb", "pdb"],
        "use a command that prints its result",
    ),
    (&["read", "select"], "give the value as an argument or a variable"),
];

/// Programs that are interactive unless their input is redirected or one of these options is given.
static WITHOUT_OPTIONS: &[(&[&str], &[&str], &str)] = &[
    (&["mysql", "mariadb"], &["-e", "--execute"], "pass the statement with `-e`"),
    (&["psql"], &["-c", "-f", "-l", "--command", "--file", "--list"], "pass the statement with `-c`"),
    (&["mongo", "mongosh"], &["--eval", "-f", "--file"], "pass the script with `--eval`"),
    (&["sqlcmd"], &["-Q", "-q", "-i"], "pass the statement with `-Q`"),
];

/// The parts of a command that wait for a person.
pub fn interactive(understood: &ParsedCommand) -> Vec<Interactive> {
    let mut found: Vec<Interactive> = Vec::new();
    for command in understood.commands() {
        let Some(instead) = alternative(command) else { continue };
        let second = command
            .args()
            .find(|arg| !arg.starts_with('-'))
            .filter(|_| matches!(command.name(), "git" | "npm" | "yarn" | "docker" | "cargo"));
        let what =
            second.map_or_else(|| command.name().to_owned(), |second| format!("{} {second}", command.name()));
        let one = Interactive { what, instead };
        if !found.contains(&one) {
            found.push(one);
        }
    }
    found
}

/// What to run instead of a command; `None` if it is not interactive.
fn alternative(command: &Command) -> Option<&'static str> {
    let name = command.name();
    let args: Vec<&str> = command.args().collect();
    let has_input = command.piped
        || command
            .redirects
            .iter()
            .any(|redirect| matches!(redirect.kind, super::RedirectKind::Read | super::RedirectKind::Here));
    let has = |word: &str| args.contains(&word);
    let options = args.split(|arg| *arg == "--").next().unwrap_or_default();
    let short = |letter: char| {
        options.iter().any(|arg| arg.starts_with('-') && !arg.starts_with("--") && arg.contains(letter))
    };
    if matches!(args.as_slice(), ["--version" | "-V" | "--help" | "-h"]) {
        return None;
    }
    if matches!(name, "top" | "htop") && short('b')
        || name == "read" && has_input
        || matches!(name, "nc" | "ncat") && short('z')
    {
        return None;
    }
    if let Some((_, instead)) = ALWAYS.iter().find(|(names, _)| names.contains(&name)) {
        return Some(instead);
    }
    if let Some((_, options, instead)) = WITHOUT_OPTIONS.iter().find(|(names, ..)| names.contains(&name)) {
        let has_option = args.iter().any(|arg| options.iter().any(|option| arg.starts_with(option)));
        return (!has_input && !has_option).then_some(instead);
    }
    let operands = args.iter().filter(|arg| !arg.starts_with('-')).count();
    match name {
        "ssh" => (operands < 2 && !has_input)
            .then_some("give the command to run behind the host, with `-o BatchMode=yes`"),
        "sudo" => (!short('n') && !short('S'))
            .then_some("it may ask for a password: use `sudo -n`, or ask the user"),
        "su" => (!short('c')).then_some("pass the command with `-c`; it may ask for a password"),
        "redis-cli" => (operands == 0 && !has_input).then_some("give the command as arguments"),
        "sqlite3" => (operands < 2 && !has_input).then_some("give the statement behind the file"),
        "git" => git_alternative(&args, &has, &short),
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
        "docker" | "podman" if (short('t') || has("--tty")) && (short('i') || has("--interactive")) => {
            Some("leave `-it` away")
        }
        "gh" if has("login") => Some("set `GH_TOKEN`"),
        "crontab" if short('e') => Some("give a file to `crontab`"),
        "rm" | "cp" | "mv" if short('i') => Some("leave `-i` away"),
        "find" if has("-ok") || has("-okdir") => Some("use `-exec`"),
        "bash" | "sh" | "zsh" | "fish" | "dash" | "ksh" if operands == 0 && !has_input && !short('c') => {
            Some("pass the script with `-c`")
        }
        "tail" if (short('f') || short('F') || has("--follow")) => {
            Some("use `tail -n 100`: it does not end by itself")
        }
        "bc" | "dc" if operands == 0 && !has_input && !short('e') => Some("pipe the sum into it"),
        name if wrap::is_interpreter(name) => interpreter_alternative(&args, operands, has_input),
        "irb" | "ghci" | "ipython" | "iex" | "jshell" | "spark-shell" | "pry" | "utop" | "sbcl" | "clj" => {
            (operands == 0 && !has_input).then_some("run a script")
        }
        _ => None,
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
) -> Option<&'static str> {
    let edits = |quiet: &[&str]| !args.iter().any(|arg| quiet.iter().any(|quiet| arg.starts_with(quiet)));
    if has("rebase") && (short('i') || has("--interactive")) {
        return Some("set `GIT_SEQUENCE_EDITOR`, or use `git rebase --onto` or `git cherry-pick`");
    }
    let stashes = has("stash") && !["show", "list", "apply", "pop", "drop"].into_iter().any(has);
    if (has("add") || has("checkout") || has("reset") || stashes || has("commit") || has("restore"))
        && (has("-p") || has("--patch") || (has("add") && (short('i') || short('e'))))
    {
        return Some("name the files");
    }
    if has("commit")
        && !short('m')
        && !short('F')
        && !short('C')
        && edits(&["--message", "--file", "--no-edit", "--fixup", "--reuse-message", "--squash", "--dry-run"])
    {
        return Some("pass the message with `-m`");
    }
    if has("tag") && short('a') && !short('m') && !short('F') {
        return Some("pass the message with `-m`");
    }
    if has("mergetool") || has("difftool") || has("citool") || has("gui") {
        return Some("use `git diff` and edit the files");
    }
    if has("clean") && short('i') {
        return Some("use `git clean -n`, then `-f`");
    }
    (has("config") && (short('e') || has("--edit"))).then_some("set the value with `git config NAME VALUE`")
}
