//! The table of commands that run other commands.

/// A program whose arguments are a command.
pub(super) struct Wrapper {
    pub(super) name: &'static str,
    /// Short options without a value.
    pub(super) flags: &'static str,
    /// Short options with one.
    pub(super) valued: &'static str,
    /// Long options with a value in the next word.
    pub(super) long: &'static [&'static str],
    /// Words before the command.
    pub(super) operands: usize,
    pub(super) how: How,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// The command does the same without it.
    Transparent,
    /// It does not: as another user, elsewhere, later, with other arguments.
    Plain,
    /// `NAME=value` may stand before the command.
    Assigning,
    /// The words are joined and given to a shell.
    Joined,
}

const fn wrapper(name: &'static str, flags: &'static str, valued: &'static str) -> Wrapper {
    Wrapper { name, flags, valued, long: &[], operands: 0, how: How::Plain }
}

impl Wrapper {
    const fn long(self, long: &'static [&'static str]) -> Self {
        Self { long, ..self }
    }
    const fn after(self, operands: usize) -> Self {
        Self { operands, ..self }
    }
    const fn how(self, how: How) -> Self {
        Self { how, ..self }
    }
}

#[rustfmt::skip]
pub(super) static WRAPPERS: &[Wrapper] = &[
    wrapper("timeout", "fpv", "ks").long(&["--kill-after", "--signal"]).after(1).how(How::Transparent),
    wrapper("nice", "0123456789", "n").long(&["--adjustment"]).how(How::Transparent),
    wrapper("stdbuf", "", "ioe").long(&["--input", "--output", "--error"]).how(How::Transparent),
    wrapper("ionice", "t", "cnpPu").long(&["--class", "--classdata"]).how(How::Transparent),
    wrapper("command", "p", "").how(How::Transparent),
    wrapper("builtin", "", ""),
    wrapper("exec", "cl", "a"),
    wrapper("nohup", "", ""),
    wrapper("setsid", "cfw", ""),
    wrapper("time", "apqvV", "fo").long(&["--format", "--output"]),
    wrapper("env", "i0v", "uCS").long(&["--unset", "--chdir", "--split-string"]).how(How::Assigning),
    wrapper("sudo", "AbBEeHiKklnPSsVv", "CDghpRrTtUu")
        .long(&[
            "--user", "--group", "--host", "--prompt", "--chdir", "--chroot", "--role", "--type",
            "--close-from", "--other-user", "--command-timeout",
        ])
        .how(How::Assigning),
    wrapper("doas", "Lns", "aCu"),
    wrapper("pkexec", "", "").long(&["--user"]),
    wrapper("run0", "", "ugD").long(&["--user", "--group", "--chdir"]),
    wrapper("xargs", "0oprtxei", "adEILnPsJRS").long(&[
        "--arg-file", "--delimiter", "--max-args", "--max-procs", "--max-chars", "--process-slot-var",
    ]),
    wrapper("chroot", "", "").after(1),
    wrapper("busybox", "", ""),
    wrapper("toybox", "", ""),
    wrapper("setarch", "vRFZLXBIST3", "").after(1),
    wrapper("linux64", "vRFZLXBIST3", ""),
    wrapper("taskset", "a", "").after(1),
    wrapper("chrt", "abdfiorRm", "TPD").after(1),
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
    wrapper("flock", "FsxeunoV", "wEc").after(1),
    wrapper("entr", "acdnprsxz", ""),
    wrapper("lockrun", "", ""),
    wrapper("unbuffer", "p", ""),
    wrapper("torsocks", "", ""),
    wrapper("proxychains", "q", "f"),
    wrapper("proxychains4", "q", "f"),
    wrapper("firejail", "", ""),
    wrapper("bwrap", "", ""),
    wrapper("hyperfine", "iN", "wmMrspPLSnu"),
    wrapper("watch", "bcdegptxwC", "nq").long(&["--interval", "--equexit"]).how(How::Joined),
    wrapper("parallel", "kmXuq0r", "jISaNLnPsdE")
        .long(&["--jobs", "--colsep", "--joblog", "--results", "--delay"])
        .how(How::Joined),
    wrapper("ssh", "46AaCfGgKkMNnqsTtVvXxYy", "BbcDEeFIiJLlmOoPpRSWw").after(1).how(How::Joined),
    wrapper("eval", "", "").how(How::Joined),
];

/// Long options without a value. Behind one that is in no list, any word may be the command.
#[rustfmt::skip]
pub(super) const FLAGS: &[&str] = &[
    "--preserve-status", "--foreground", "--verbose", "--null", "--no-run-if-empty", "--interactive", "--exit",
    "--ignore-environment", "--fork", "--wait", "--non-interactive", "--background", "--preserve-env", "--login",
    "--shell", "--stdin", "--open-tty", "--ctty", "--idle", "--ignore", "--portability", "--replace", "--debug",
];

/// Programs that take a script as their input or with `-c`.
#[rustfmt::skip]
pub(super) const SHELLS: &[&str] = &[
    "sh", "bash", "dash", "zsh", "ksh", "ksh93", "mksh", "ash", "fish", "rbash", "csh", "tcsh", "yash",
    "elvish", "nu", "pwsh",
];

/// Interpreters, and the options behind which code stands.
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
];

/// Programs that fetch or choose what they run.
#[rustfmt::skip]
pub(super) const RUNNERS: &[&str] = &[
    "npx", "bunx", "pnpx", "uvx", "pipx", "docker", "podman", "nerdctl", "kubectl", "nix", "nix-shell",
    "devbox", "direnv", "mise", "asdf", "rtx", "conda", "mamba", "poetry", "pipenv", "hatch", "tox",
    "nox", "vagrant", "make", "gmake", "ninja", "just", "rake", "ant", "gradle", "mvn", "bazel", "lxc",
    "distrobox", "toolbox", "flatpak", "snap", "at", "batch", "crontab", "screen", "tmux", "expect",
    "script", "su", "runuser", "sg", "newgrp",
];

/// Builtins that evaluate text, or change what later commands are or how they are read.
#[rustfmt::skip]
pub(super) const EVALUATES: &[&str] = &[
    "eval", "source", ".", "exec", "trap", "alias", "unalias", "hash", "enable", "mapfile", "readarray",
    "compgen", "complete", "compopt", "read", "declare", "typeset", "local", "readonly", "export",
    "unset", "let", "history", "set", "shopt", "builtin", "bind", "fc", "getopts", "disown", "bg", "fg",
    "umask", "ulimit", "exit", "return", "logout", "caller",
];
