//! Tables of programs that run other commands or code. Data only; `wrap` interprets it.

/// A program whose arguments contain a command.
pub(super) struct Wrapper {
    pub(super) name: &'static str,
    /// Short options without a value.
    pub(super) flags: &'static str,
    /// Short options with a value.
    pub(super) valued: &'static str,
    /// Long options with a value in the next word.
    pub(super) long: &'static [&'static str],
    /// Number of operands before the command.
    pub(super) operands: usize,
    pub(super) kind: WrapperKind,
}

/// How a wrapper treats the command in its arguments.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WrapperKind {
    /// The command does the same without the wrapper.
    Transparent,
    /// The wrapper changes what the command does: another user, another place, later, other arguments.
    Plain,
    /// Like `Plain`, with assignments (`NAME=value`) before the command.
    Assigning,
    /// The wrapper joins the words and passes them to a shell.
    Joined,
}

const fn wrapper(name: &'static str, flags: &'static str, valued: &'static str) -> Wrapper {
    Wrapper { name, flags, valued, long: &[], operands: 0, kind: WrapperKind::Plain }
}

impl Wrapper {
    const fn long(self, long: &'static [&'static str]) -> Self {
        Self { long, ..self }
    }
    const fn operands(self, operands: usize) -> Self {
        Self { operands, ..self }
    }
    const fn kind(self, kind: WrapperKind) -> Self {
        Self { kind, ..self }
    }
}

#[rustfmt::skip]
pub(super) static WRAPPERS: &[Wrapper] = &[
    wrapper("timeout", "fpv", "ks").long(&["--kill-after", "--signal"]).operands(1).kind(WrapperKind::Transparent),
    wrapper("nice", "0123456789", "n").long(&["--adjustment"]).kind(WrapperKind::Transparent),
    wrapper("stdbuf", "", "ioe").long(&["--input", "--output", "--error"]).kind(WrapperKind::Transparent),
    wrapper("ionice", "t", "cnpPu").long(&["--class", "--classdata"]).kind(WrapperKind::Transparent),
    wrapper("command", "p", "").kind(WrapperKind::Transparent),
    wrapper("builtin", "", ""),
    wrapper("exec", "cl", "a"),
    wrapper("nohup", "", ""),
    wrapper("setsid", "cfw", ""),
    wrapper("time", "apqvV", "fo").long(&["--format", "--output"]),
    wrapper("env", "i0v", "uCS").long(&["--unset", "--chdir", "--split-string"]).kind(WrapperKind::Assigning),
    wrapper("sudo", "AbBEeHiKklnPSsVv", "CDghpRrTtUu")
        .long(&[
            "--user", "--group", "--host", "--prompt", "--chdir", "--chroot", "--role", "--type",
            "--close-from", "--other-user", "--command-timeout",
        ])
        .kind(WrapperKind::Assigning),
    wrapper("doas", "Lns", "aCu"),
    wrapper("pkexec", "", "").long(&["--user"]),
    wrapper("run0", "", "ugD").long(&["--user", "--group", "--chdir"]),
    wrapper("xargs", "0oprtxei", "adEILnPsJRS").long(&[
        "--arg-file", "--delimiter", "--max-args", "--max-procs", "--max-chars", "--process-slot-var",
    ]),
    wrapper("chroot", "", "").operands(1),
    wrapper("busybox", "", ""),
    wrapper("toybox", "", ""),
    wrapper("setarch", "vRFZLXBIST3", "").operands(1),
    wrapper("linux64", "vRFZLXBIST3", ""),
    wrapper("taskset", "a", "").operands(1),
    wrapper("chrt", "abdfiorRm", "TPD").operands(1),
    wrapper("numactl", "", "").long(&["--cpunodebind", "--membind", "--interleave", "--physcpubind"]),
    wrapper("prlimit", "", ""),
    wrapper("setpriv", "", "").long(&["--reuid", "--regid", "--groups"]),
    wrapper("unshare", "fimnprCuUcT", "RSwG").long(&[
        "--root", "--wd", "--map-user", "--map-group", "--setuid", "--setgid",
    ]),
    wrapper("nsenter", "FaCimnprTuUZ", "tSGW").long(&["--target", "--setuid", "--setgid", "--wd"]),
    wrapper("strace", "cCdfFhiqrtTvVxyYzZk", "abeEIoOpPsSuUX"),
    wrapper("ltrace", "bcCfhiLrStTV", "aADeFlnopsuxX"),
    wrapper("valgrind", "", ""),
    wrapper("fakeroot", "uhv", "lsibf"),
    wrapper("catchsegv", "", ""),
    wrapper("caffeinate", "dimsu", "tw"),
    wrapper("systemd-run", "dGPqrSt", "EpuM").long(&[
        "--unit", "--property", "--slice", "--uid", "--gid", "--on-active", "--setenv",
    ]),
    wrapper("systemd-inhibit", "", ""),
    wrapper("dbus-run-session", "", ""),
    wrapper("flock", "FsxeunoV", "wEc").operands(1),
    wrapper("entr", "acdnprsxz", ""),
    wrapper("lockrun", "", ""),
    wrapper("unbuffer", "p", ""),
    wrapper("torsocks", "", ""),
    wrapper("proxychains", "q", "f"),
    wrapper("proxychains4", "q", "f"),
    wrapper("firejail", "", ""),
    wrapper("bwrap", "", ""),
    wrapper("gosu", "", "").operands(1),
    wrapper("su-exec", "", "").operands(1),
    wrapper("tini", "gsvw", "pe"),
    wrapper("dumb-init", "cv", "r"),
    wrapper("choom", "", "np"),
    wrapper("chronic", "ev", ""),
    wrapper("ifne", "n", ""),
    wrapper("eatmydata", "", ""),
    wrapper("faketime", "fm", "").operands(1),
    wrapper("rlwrap", "aAcEiImnNrRWX", "bCdDfFgHloPqsStwzM"),
    wrapper("xvfb-run", "al", "efnpsw").long(&["--server-args", "--server-num", "--auth-file", "--error-file"]),
    wrapper("cpulimit", "bfiqrz", "elpP").long(&["--limit", "--pid", "--exe", "--path"]),
    wrapper("perf", "", "").operands(1),
    wrapper("sshpass", "ev", "fdpP"),
    wrapper("cross-env", "", "").kind(WrapperKind::Assigning),
    wrapper("dotenv", "", "ef"),
    wrapper("sem", "", "j").long(&["--id", "--jobs"]).kind(WrapperKind::Joined),
    wrapper("watch", "bcdegptxwC", "nq").long(&["--interval", "--equexit"]).kind(WrapperKind::Joined),
    wrapper("parallel", "kmXuq0r", "jISaNLnPsdE")
        .long(&["--jobs", "--colsep", "--joblog", "--results", "--delay"])
        .kind(WrapperKind::Joined),
    wrapper("ssh", "46AaCfGgKkMNnqsTtVvXxYy", "BbcDEeFIiJLlmOoPpRSWw").operands(1).kind(WrapperKind::Joined),
    wrapper("eval", "", "").kind(WrapperKind::Joined),
];

/// Long options of any wrapper that take no value. Behind an option in no list, any word may be the command.
#[rustfmt::skip]
pub(super) const FLAGS: &[&str] = &[
    "--preserve-status", "--foreground", "--verbose", "--null", "--no-run-if-empty", "--interactive", "--exit",
    "--ignore-environment", "--fork", "--wait", "--non-interactive", "--background", "--preserve-env", "--login",
    "--shell", "--stdin", "--open-tty", "--ctty", "--idle", "--ignore", "--portability", "--replace", "--debug",
];

/// Shells: programs that take a script on standard input or with `-c`.
#[rustfmt::skip]
pub(super) const SHELLS: &[&str] = &[
    "sh", "bash", "dash", "zsh", "ksh", "ksh93", "mksh", "ash", "fish", "rbash", "csh", "tcsh", "yash",
    "elvish", "nu", "pwsh",
];

/// Interpreters, and their options that take code.
pub(super) const INTERPRETERS: &[(&str, &str)] = &[
    ("python", "c"),
    ("pypy", "c"),
    ("perl", "eE"),
    ("ruby", "e"),
    ("node", "ep"),
    ("nodejs", "ep"),
    ("bun", "ep"),
    ("deno", ""),
    ("php", "rBRE"),
    ("lua", "e"),
    ("luajit", "e"),
    ("tclsh", ""),
    ("osascript", "e"),
    ("Rscript", "e"),
    ("julia", "eE"),
    ("ghc", "e"),
    ("groovy", "e"),
    ("scala", "e"),
    ("elixir", "e"),
    ("erl", ""),
    ("guile", "c"),
    ("emacs", ""),
    ("vim", "c"),
    ("vi", "c"),
    ("nvim", "c"),
    ("ex", "c"),
    ("ed", ""),
    ("gdb", "e"),
    ("sqlite", "c"),
    ("psql", "c"),
    ("mysql", "e"),
    ("expect", "c"),
    ("dc", "e"),
    ("m4", ""),
    ("gnuplot", "e"),
    ("irb", ""),
    ("octave", ""),
    ("ocaml", "e"),
    ("racket", "e"),
    ("jshell", ""),
    ("iex", "e"),
];

/// A program that runs others which it fetches or configures itself.
pub(super) struct Runner {
    pub(super) name: &'static str,
    /// Subcommands behind which the command stands; empty if it stands behind the options of the program.
    pub(super) after: &'static [&'static str],
    pub(super) kind: RunnerKind,
}

/// Where the command of a runner is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RunnerKind {
    /// Its first operand is the program.
    Command,
    /// Any of its words may be the program.
    Anywhere,
    /// Its operands are targets of a build, which are defined in a file; only values of variables may be commands.
    Targets,
    /// As `Command`, but only with one of the subcommands; without them it runs nothing that it is given.
    Subcommand,
}

const fn runner(name: &'static str, kind: RunnerKind, after: &'static [&'static str]) -> Runner {
    Runner { name, after, kind }
}

/// Programs that run others which they fetch or configure themselves.
#[rustfmt::skip]
pub(super) static RUNNERS: &[Runner] = &[
    runner("npx", RunnerKind::Command, &[]),
    runner("bunx", RunnerKind::Command, &[]),
    runner("pnpx", RunnerKind::Command, &[]),
    runner("uvx", RunnerKind::Command, &[]),
    runner("pipx", RunnerKind::Command, &["run"]),
    runner("npm", RunnerKind::Subcommand, &["exec", "x"]),
    runner("pnpm", RunnerKind::Subcommand, &["exec", "dlx"]),
    runner("yarn", RunnerKind::Subcommand, &["exec", "dlx"]),
    runner("bun", RunnerKind::Subcommand, &["x"]),
    runner("uv", RunnerKind::Subcommand, &["run"]),
    runner("bundle", RunnerKind::Subcommand, &["exec"]),
    runner("rustup", RunnerKind::Subcommand, &["run"]),
    runner("docker", RunnerKind::Anywhere, &["run", "exec", "create", "debug"]),
    runner("podman", RunnerKind::Anywhere, &["run", "exec", "create", "debug"]),
    runner("nerdctl", RunnerKind::Anywhere, &["run", "exec", "create", "debug"]),
    runner("kubectl", RunnerKind::Anywhere, &["run", "exec", "debug"]),
    runner("nix", RunnerKind::Anywhere, &["run", "shell", "develop"]),
    runner("nix-shell", RunnerKind::Anywhere, &[]),
    runner("devbox", RunnerKind::Command, &["run"]),
    runner("direnv", RunnerKind::Anywhere, &["exec"]),
    runner("mise", RunnerKind::Anywhere, &["exec", "x", "run"]),
    runner("rtx", RunnerKind::Anywhere, &["exec", "x", "run"]),
    runner("asdf", RunnerKind::Anywhere, &["exec"]),
    runner("conda", RunnerKind::Anywhere, &["run"]),
    runner("mamba", RunnerKind::Anywhere, &["run"]),
    runner("poetry", RunnerKind::Command, &["run"]),
    runner("pipenv", RunnerKind::Command, &["run"]),
    runner("hatch", RunnerKind::Command, &["run"]),
    runner("tox", RunnerKind::Targets, &[]),
    runner("nox", RunnerKind::Targets, &[]),
    runner("vagrant", RunnerKind::Anywhere, &["ssh"]),
    runner("make", RunnerKind::Targets, &[]),
    runner("gmake", RunnerKind::Targets, &[]),
    runner("ninja", RunnerKind::Targets, &[]),
    runner("just", RunnerKind::Targets, &[]),
    runner("rake", RunnerKind::Targets, &[]),
    runner("ant", RunnerKind::Targets, &[]),
    runner("gradle", RunnerKind::Targets, &[]),
    runner("mvn", RunnerKind::Targets, &[]),
    runner("bazel", RunnerKind::Targets, &[]),
    runner("lxc", RunnerKind::Anywhere, &["exec"]),
    runner("distrobox", RunnerKind::Anywhere, &["enter"]),
    runner("toolbox", RunnerKind::Anywhere, &["run"]),
    runner("flatpak", RunnerKind::Anywhere, &["run"]),
    runner("snap", RunnerKind::Anywhere, &["run"]),
    runner("at", RunnerKind::Anywhere, &[]),
    runner("batch", RunnerKind::Anywhere, &[]),
    runner("crontab", RunnerKind::Anywhere, &[]),
    runner("screen", RunnerKind::Anywhere, &[]),
    runner("tmux", RunnerKind::Anywhere, &[]),
    runner("expect", RunnerKind::Anywhere, &[]),
    runner("script", RunnerKind::Anywhere, &[]),
    runner("su", RunnerKind::Anywhere, &[]),
    runner("runuser", RunnerKind::Anywhere, &[]),
    runner("sg", RunnerKind::Anywhere, &[]),
    runner("newgrp", RunnerKind::Anywhere, &[]),
];

/// Options whose value is a command: programs, short options, long options.
#[rustfmt::skip]
pub(super) static RUNNING_OPTIONS: &[(&[&str], &str, &[&str])] = &[
    (
        &["tar", "gtar", "bsdtar"], "IF",
        &[
            "--checkpoint-action", "--to-command", "--use-compress-program", "--rsh-command", "--rmt-command",
            "--info-script", "--new-volume-script",
        ],
    ),
    (&["rsync"], "e", &["--rsh", "--rsync-path"]),
    (&["zip"], "T", &["--unzip-command"]),
    (&["split"], "", &["--filter"]),
    (&["sort"], "", &["--compress-program"]),
    (&["man"], "PH", &["--pager", "--html"]),
    (&["ssh", "scp", "sftp"], "oS", &[]),
    (&["rg"], "", &["--pre", "--hostname-bin"]),
    (&["fzf"], "", &["--preview", "--bind"]),
    (&["nc", "ncat", "netcat"], "ec", &["--exec", "--sh-exec"]),
    (&["start-stop-daemon"], "xa", &["--exec", "--startas"]),
    (&["npm", "npx", "pnpm", "pnpx", "yarn"], "c", &["--call"]),
    (&["nix", "nix-shell"], "c", &["--run", "--command"]),
    (&["make", "gmake"], "E", &["--eval"]),
    (&["wget"], "", &["--use-askpass"]),
    (&["nodemon", "watchexec", "cargo-watch"], "xs", &["--exec", "--shell"]),
];

/// Builtins that evaluate text, or change how the shell reads or runs later commands.
#[rustfmt::skip]
pub(super) const EVALUATES: &[&str] = &[
    "eval", "source", ".", "exec", "trap", "alias", "unalias", "hash", "enable", "mapfile", "readarray",
    "compgen", "complete", "compopt", "read", "declare", "typeset", "local", "readonly", "export",
    "unset", "let", "history", "set", "shopt", "builtin", "bind", "fc", "getopts", "disown", "bg", "fg",
    "umask", "ulimit", "exit", "return", "logout", "caller",
];
