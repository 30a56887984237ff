//! Commands that need approval each time: their effect cannot be undone, or reaches beyond the project. The check is
//! a heuristic over everything that could run, with more false positives than false negatives.

use super::{Command, Doubt, ParsedCommand, RedirectKind, Word, scan, wrap};

/// A reason why a command needs approval each time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sensitive {
    /// What the command would do, for people.
    pub reason: String,
    /// Whether it would destroy everything: delete a root or home folder, overwrite a disk.
    pub catastrophic: bool,
}

/// Programs that are sensitive with any arguments.
#[rustfmt::skip]
static PROGRAMS: &[(&[&str], &str)] = &[
    (&["sudo", "su", "doas", "pkexec", "runuser", "visudo", "setcap"], "acts with other privileges"),
    (&["passwd", "chpasswd", "useradd", "usermod", "userdel", "groupadd", "gpasswd"], "changes accounts"),
    (&["shutdown", "reboot", "halt", "poweroff", "telinit", "init"], "stops or restarts the machine"),
    (
        &[
            "fdisk", "parted", "wipefs", "sgdisk", "sfdisk", "cryptsetup", "lvremove", "vgremove",
            "zpool", "mkswap", "blkdiscard",
        ],
        "changes disks",
    ),
    (&["killall", "pkill"], "ends processes by name"),
    (&["crontab", "at", "batch"], "has something run later"),
    (&["shred", "srm", "wipe"], "deletes beyond recovery"),
    (&["insmod", "rmmod", "modprobe", "kexec"], "changes the kernel"),
    (
        &[
            "iptables", "ip6tables", "iptables-restore", "ip6tables-restore", "nft", "ufw", "firewall-cmd",
            "ebtables", "arptables", "ipset",
        ],
        "changes which connections are let through",
    ),
    (&["umount", "swapoff", "pivot_root", "losetup"], "changes what is mounted"),
    (&["dropdb", "dropuser"], "deletes a database"),
];

/// Parts of paths to files with secrets.
#[rustfmt::skip]
const SECRETS: &[&str] = &[
    ".ssh/id_", ".aws/credentials", ".netrc", ".git-credentials", "/etc/shadow", "/etc/sudoers",
    ".gnupg/", ".kube/config", ".docker/config.json", ".config/gh/hosts", ".pypirc", ".password-store",
    "credentials.json", ".vault-token",
];

/// All reasons why a command needs approval each time.
pub fn sensitive(understood: &ParsedCommand) -> Vec<Sensitive> {
    let mut found = Vec::new();
    let mut note = |reason: &str, catastrophic| {
        let sensitive = Sensitive { reason: reason.to_owned(), catastrophic };
        if !found.contains(&sensitive) {
            found.push(sensitive);
        }
    };
    for (names, reason) in PROGRAMS {
        if let Some(name) = names.iter().find(|name| understood.words().contains(**name)) {
            note(&format!("`{name}` {reason}"), false);
        }
    }
    if understood.words().contains("mkfs") {
        note("`mkfs` makes a file system where another may be", true);
    }
    for command in understood.commands() {
        check_command(command, &mut note);
    }
    if is_fork_bomb(understood) {
        note("a function calls itself in the background without end", true);
    }
    let fetches = ["curl", "wget", "nc", "ssh", "scp"].iter().any(|name| understood.words().contains(*name));
    let runs = |command: &Command| runs_code(command) || matches!(command.name(), "eval" | "source" | ".");
    if fetches && understood.commands().iter().any(runs) {
        note("what comes from the network is run", false);
    }
    let scripted = |command: &Command| command.piped && runs_code(command);
    if understood.commands().iter().any(scripted) {
        note("what another command prints is run", false);
    }
    let scanned = |word: &str| understood.scanned().iter().any(|token| token == word);
    if scanned("rm")
        && understood
            .scanned()
            .iter()
            .any(|token| token.starts_with("-r") || token.starts_with("-fr") || token.starts_with("-R"))
    {
        note("`rm -r` deletes folders", false);
    }
    found
}

/// Whether the program is a shell or another interpreter.
fn runs_code(command: &Command) -> bool {
    wrap::is_shell(command.name()) || wrap::is_interpreter(command.name())
}

fn check_command(command: &Command, note: &mut impl FnMut(&str, bool)) {
    let args: Vec<&str> = command.args().collect();
    let flag = |letters: &str, long: &[&str]| {
        args.iter().any(|arg| {
            let short =
                arg.starts_with('-') && !arg.starts_with("--") && arg.contains(|c| letters.contains(c));
            short || (arg.starts_with("--") && arg.len() > 2 && long.iter().any(|long| long.starts_with(arg)))
        })
    };
    let has = |word: &str| args.contains(&word);
    let is_temporary =
        |path: &&&str| ["/tmp", "/var/tmp", "/dev/shm", "/run"].iter().any(|place| path.starts_with(place));
    if command.name() == "mv" && args.last().filter(is_temporary).is_some() {
        note("what `mv` moves to a temporary folder is gone when the command ends", false);
    }
    let device = |path: &str| {
        path.starts_with("/dev/")
            && !matches!(
                path,
                "/dev/null"
                    | "/dev/stdout"
                    | "/dev/stderr"
                    | "/dev/stdin"
                    | "/dev/tty"
                    | "/dev/zero"
                    | "/dev/random"
                    | "/dev/urandom"
            )
            && !path.starts_with("/dev/fd/")
            && !path.starts_with("/dev/shm/")
            && !path.starts_with("/dev/tcp/")
            && !path.starts_with("/dev/udp/")
    };
    let operands = || command.argv.iter().skip(1).filter(|word| !word.text().starts_with('-'));
    for redirect in &command.redirects {
        let target = redirect.target.text();
        let writes =
            matches!(redirect.kind, RedirectKind::Write | RedirectKind::Append | RedirectKind::ReadWrite);
        if writes && device(target) {
            note("it writes to a device", true);
        }
        if writes
            && ["/etc/", "/boot/", "/usr/", "/bin/", "/sbin/", "/lib/"]
                .iter()
                .any(|folder| target.starts_with(folder))
        {
            note("it writes to the system's files", false);
        }
    }
    let paths = command.argv.iter().chain(
        command
            .redirects
            .iter()
            .filter(|redirect| redirect.kind != RedirectKind::Here)
            .map(|redirect| &redirect.target),
    );
    if let Some(secret) =
        paths.map(Word::text).find(|path| SECRETS.iter().any(|secret| path.contains(secret)))
    {
        note(&format!("it touches `{secret}`, where secrets are"), false);
    }
    match command.name() {
        "rm" | "unlink" | "grm" => {
            let recursive = flag("rR", &["--recursive"]);
            if recursive && (has("--no-preserve-root") || operands().any(is_everything)) {
                note("it deletes a root, a home, or the folder it is in", true);
            } else if recursive {
                note("`rm -r` deletes folders", false);
            } else if operands().count() > 1 || operands().any(|word| !word.is_literal()) {
                note("it deletes several files", false);
            }
            if command
                .by
                .as_ref()
                .is_some_and(|by| matches!(by.name.as_str(), "xargs" | "find" | "parallel" | "fd"))
            {
                note("it deletes whatever is found", false);
            }
        }
        "find" | "gfind" if has("-delete") => note("`find -delete` deletes whatever is found", false),
        "rsync"
            if args.iter().any(|arg| arg.starts_with("--delete") || arg.starts_with("--remove-source")) =>
        {
            note("`rsync --delete` deletes files", false);
        }
        "dd" if args.iter().any(|arg| arg.strip_prefix("of=").is_some_and(device)) => {
            note("`dd` overwrites a device", true)
        }
        "tee" | "cp" | "mv" | "cat"
            if operands().next_back().is_some_and(|word| device(word.text())) && command.name() != "cat" =>
        {
            note("it writes to a device", true);
        }
        "mv" if operands().next_back().is_some_and(|word| word.text() == "/dev/null") => {
            note("it deletes by moving to nowhere", false)
        }
        "chmod" => {
            let open = args.iter().any(|arg| {
                matches!(arg.trim_start_matches('0'), "777" | "666" | "a+rwx" | "a+w" | "ugo+rwx" | "o+w")
            });
            if flag("R", &["--recursive"]) && open {
                note("it opens whole folders to everybody", false);
            } else if flag("R", &["--recursive"]) && operands().any(is_everything) {
                note(
                    "it changes the permissions of everything in a root, a home, or the folder it is in",
                    false,
                );
            }
            if args.iter().any(|arg| {
                arg.contains("+s")
                    || (arg.len() == 4
                        && arg.starts_with(['4', '2', '6'])
                        && arg.bytes().all(|c| c.is_ascii_digit()))
            }) {
                note("it lets a program run with its owner's privileges", false);
            }
        }
        "chown" | "chgrp" if flag("R", &["--recursive"]) => {
            note("it changes the owner of whole folders", false)
        }
        "mount" | "swapon" if operands().next().is_some() || has("-a") || has("--all") => {
            note(&format!("`{}` changes what is mounted", command.name()), false);
        }
        "sysctl"
            if has("-w")
                || has("--write")
                || has("-p")
                || has("--system")
                || args.iter().any(|arg| arg.contains('=')) =>
        {
            note("`sysctl` changes the kernel", false);
        }
        "ip" | "route" | "tc" | "ifconfig" | "nmcli"
            if ["add", "del", "delete", "set", "flush", "replace", "change", "up", "down", "modify"]
                .iter()
                .any(|word| has(word)) =>
        {
            note("it changes how the network works", false);
        }
        "mke2fs" | "newfs" => note("it makes a file system where another may be", true),
        "kill"
            if has("-1")
                && args.iter().filter(|arg| **arg == "-1").count()
                    > usize::from(args.first() == Some(&"-1")) =>
        {
            note("it ends every process", false);
        }
        "systemctl" | "service"
            if !command.argv.first().is_some_and(|program| program.text().starts_with('.'))
                && [
                    "poweroff", "reboot", "halt", "stop", "disable", "mask", "enable", "restart", "start",
                ]
                .iter()
                .any(|word| has(word)) =>
        {
            note("it changes what the machine runs", false);
        }
        "git" => check_git(&args, note),
        "docker" | "podman"
            if has("prune") || has("--privileged") || args.iter().any(|arg| arg.starts_with("/:")) =>
        {
            note("it reaches beyond the container, or deletes them", false);
        }
        "kubectl" | "helm" if has("delete") || has("uninstall") || has("drain") => {
            note("it deletes what runs in a cluster", false)
        }
        "terraform" | "tofu" | "pulumi" if has("destroy") || has("-auto-approve") => {
            note("it destroys what was deployed", false)
        }
        "npm" | "cargo" | "pnpm" | "yarn" | "twine" | "gem"
            if has("publish") || has("unpublish") || has("yank") || has("upload") =>
        {
            note("it publishes a package", false);
        }
        "gh" if has("delete") || (has("auth") && has("token")) => {
            note("it deletes on a server or shows a token", false)
        }
        "gpg" if args.iter().any(|arg| arg.starts_with("--export-secret")) => {
            note("it shows secret keys", false)
        }
        "history" if flag("cdw", &[]) => note("it deletes the shell's history", false),
        "psql" | "mysql" | "sqlite3" | "mariadb" | "mongosh" => {
            let text = args.join(" ").to_lowercase();
            if ["drop table", "drop database", "truncate ", "delete from", "drop schema", "dropdatabase"]
                .iter()
                .any(|part| text.contains(part))
            {
                note("it deletes from a database", false);
            }
        }
        _ => {}
    }
}

fn check_git(args: &[&str], note: &mut impl FnMut(&str, bool)) {
    let has = |word: &str| args.contains(&word);
    let short = |letter: char| {
        args.iter().any(|arg| arg.starts_with('-') && !arg.starts_with("--") && arg.contains(letter))
    };
    let long = |long: &str| {
        args.iter().any(|arg| {
            arg.len() > 3 && arg.starts_with("--") && long.starts_with(arg.split('=').next().unwrap_or(arg))
        })
    };
    if has("push")
        && (short('f')
            || short('d')
            || long("--force")
            || long("--force-with-lease")
            || long("--mirror")
            || long("--delete")
            || long("--prune")
            || args.iter().any(|arg| arg.starts_with('+') || arg.starts_with(':')))
    {
        note("it overwrites or deletes what others have pushed", false);
    }
    if has("filter-branch")
        || has("filter-repo")
        || has("rebase")
        || (has("commit") && long("--amend"))
        || has("update-ref")
        || has("replace")
    {
        note("it rewrites history", false);
    }
    if (has("reset") && (long("--hard") || long("--merge")))
        || (has("checkout") && (has(".") || short('f') || long("--force")))
        || (has("restore") && has("."))
    {
        note("it throws away changes that are not committed", false);
    }
    if has("clean") && (short('f') || long("--force")) {
        note("it deletes files that are not in git", false);
    }
    if (has("branch") && (short('D') || (long("--delete") && long("--force"))))
        || (has("stash") && (has("drop") || has("clear")))
        || (has("reflog") && (has("expire") || has("delete")))
        || (has("gc") && long("--prune"))
    {
        note("it deletes what git keeps", false);
    }
}

/// Whether a path is, or may expand to, a root, a home or the current folder: `/`, `~`, `.`, `..`, `*`, `"$UNSET/"*`.
fn is_everything(word: &Word) -> bool {
    let path = word.text();
    let path = if path.len() > 1 { path.trim_end_matches('*') } else { path };
    let mut names = path.split('/').filter(|name| !name.is_empty() && *name != ".").peekable();
    if names.peek().is_none() {
        return true;
    }
    // One component below the root, or a variable that may be empty.
    let names: Vec<&str> = names.collect();
    match names.as_slice() {
        ["*" | ".." | "~"] => true,
        [name] if name.starts_with('~') && !word.is_literal() => true,
        [name] if name.starts_with('$') && !word.is_literal() => true,
        [_] if path.starts_with('/') => true,
        ["home" | "Users", _] if path.starts_with('/') => true,
        all => all.iter().all(|name| *name == ".."),
    }
}

/// Whether a function may call itself in the background: a fork bomb.
fn is_fork_bomb(understood: &ParsedCommand) -> bool {
    let is_defined =
        understood.doubts().contains(&Doubt::Function) || understood.doubts().contains(&Doubt::Syntax);
    let calls_itself = |command: &Command| {
        command.background
            && understood
                .scanned()
                .iter()
                .any(|name| !name.is_empty() && scan::basename(name) == command.name())
    };
    is_defined && understood.commands().iter().any(calls_itself)
}
