//! The table of programs that only read, and of options that make a program write or run something. Knows single
//! programs; `read_only` and `rules` judge whole commands by it.

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

use super::options::{Options, has_args_after_operand};
use super::{Command, bindings, git, sed};

/// When a program only reads.
pub(super) enum Profile {
    /// With any arguments.
    Reads,
    /// Without these options.
    ReadsExcept(Options),
    /// With at most one operand: it writes to the second.
    SingleOperand,
    /// If it only prints its version.
    VersionOnly,
    /// If this function accepts its arguments.
    Check(fn(&Command) -> Result<(), String>),
}

use Profile::{Check, Reads, ReadsExcept, SingleOperand, VersionOnly};

const fn except(short: &'static str, valued: &'static str, long: &'static [&'static str]) -> Profile {
    ReadsExcept(Options { short, valued, long })
}

/// Programs that only read, and when. The command that `command` runs is checked on its own.
#[rustfmt::skip]
static READERS: &[(&[&str], Profile)] = &[
    (
        &[
            "ls", "dir", "vdir", "cat", "head", "tail", "grep", "egrep", "fgrep", "wc", "stat", "cmp",
            "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum", "md5sum", "b2sum", "cksum",
            "sum", "du", "ps", "id", "whoami", "groups", "uname", "printenv", "which", "type", "pwd",
            "echo", "true", "false", ":", "basename", "dirname", "realpath", "readlink", "tr", "cut",
            "comm", "join", "paste", "fold", "nl", "od", "hexdump", "tac", "rev", "expand", "unexpand",
            "fmt", "column", "seq", "sleep", "nproc", "arch", "tty", "logname", "users", "who", "uptime",
            "free", "jq", "expr", "numfmt", "factor", "base64", "base32", "strings", "getconf", "locale",
            "pgrep", "cd", "command",
        ],
        Reads,
    ),
    (&["sort"], except("oT", "kSt", &["--output", "--temporary-directory", "--compress-program"])),
    (&["shuf"], except("o", "in", &["--output"])),
    (&["iconv"], except("o", "ft", &["--output"])),
    (&["tree"], except("oR", "", &["--output"])),
    (&["df"], except("", "", &["--sync"])),
    (&["diff"], except("l", "", &["--paginate"])),
    (
        &["file"],
        except("CzZS", "mFPef", &["--compile", "--uncompress", "--uncompress-noreport", "--no-sandbox"]),
    ),
    (&["rg"], except("z", "efgtTmABCMEjdr", &["--pre", "--hostname-bin", "--search-zip"])),
    (&["fd", "fdfind"], except("xXl", "deEtcjS", &["--exec", "--exec-batch", "--list-details"])),
    (&["uniq", "xxd"], SingleOperand),
    (&["date"], Check(date)),
    (&["hostname"], Check(hostname)),
    (&["find"], Check(find)),
    (&["git"], Check(git::read_only)),
    (&["sed", "gsed"], Check(sed::read_only)),
    (&["awk", "gawk", "mawk", "nawk"], Check(awk)),
    (&["tar"], Check(tar)),
    (&["unzip"], Check(unzip)),
    (&["dd"], Check(dd)),
    (&["tee", "env"], Check(no_args)),
    (&["test", "["], Check(test)),
    (&["read"], Check(bindings::read)),
    (&["break", "continue"], Check(levels)),
    (&["printf"], Check(printf)),
    (
        &[
            "cargo", "rustc", "npm", "node", "python", "python3", "pip", "pip3", "go", "ruby", "perl",
            "java", "javac", "gcc", "g++", "clang", "cmake", "deno", "bun",
        ],
        VersionOnly,
    ),
];

/// Options that make other programs run an argument, or write to an unexpected place.
#[rustfmt::skip]
static RISKY: &[(&[&str], Options)] = &[
    (
        &["tar", "gtar", "bsdtar"],
        Options {
            short: "IF",
            valued: "fCTXbgKLNV",
            long: &[
                "--checkpoint-action", "--to-command", "--use-compress-program", "--rsh-command",
                "--rmt-command", "--info-script", "--new-volume-script",
            ],
        },
    ),
    (&["zip"], Options { short: "T", valued: "", long: &["--test", "--unzip-command"] }),
    (&["man"], Options { short: "PHC", valued: "", long: &["--pager", "--html", "--config-file"] }),
    (
        &["less", "more", "most"],
        Options { short: "oOkK+", valued: "", long: &["--log-file", "--LOG-FILE", "--lesskey-file"] },
    ),
    (&["ssh", "scp", "sftp"], Options { short: "oFSJ", valued: "", long: &[] }),
    (&["rsync"], Options { short: "e", valued: "", long: &["--rsh", "--rsync-path"] }),
    (
        &["curl"],
        Options {
            short: "oOKTcD",
            valued: "HXdAeub",
            long: &[
                "--output", "--output-dir", "--remote-name", "--remote-name-all", "--config",
                "--upload-file", "--cookie-jar", "--dump-header", "--trace", "--trace-ascii", "--stderr",
                "--proto-default", "--engine", "--libcurl",
            ],
        },
    ),
    (
        &["wget"],
        Options {
            short: "OPioae",
            valued: "U",
            long: &[
                "--output-document", "--directory-prefix", "--use-askpass", "--post-file", "--body-file",
                "--execute", "--config", "--output-file", "--append-output", "--input-file",
            ],
        },
    ),
    (
        &["gcc", "g++", "cc", "c++", "clang", "clang++"],
        Options { short: "B", valued: "DIoLlWOf", long: &["--specs", "--wrapper"] },
    ),
    (&["split"], Options { short: "", valued: "", long: &["--filter"] }),
    (&["pip", "pip3"], Options { short: "", valued: "", long: &["--python"] }),
    (&["cargo"], Options { short: "", valued: "", long: &["--config"] }),
];

/// The profile of a program; `None` if it is not known to only read.
pub(super) fn profile(name: &str) -> Option<&'static Profile> {
    static BY_NAME: LazyLock<FxHashMap<&str, &Profile>> = LazyLock::new(|| {
        READERS.iter().flat_map(|(names, profile)| names.iter().map(move |name| (*name, profile))).collect()
    });
    BY_NAME.get(name).copied()
}

/// The reason why a rule with a wildcard must not cover a command: an option that its author hardly meant.
pub(super) fn risk(command: &Command) -> Option<String> {
    let name = command.name();
    let option = RISKY
        .iter()
        .find(|(names, _)| names.contains(&name))
        .and_then(|(_, options)| options.find(command.args()));
    if let Some(option) = option {
        return Some(format!("`{name} {option}` can run or write something else"));
    }
    match (name, profile(name)) {
        ("git", _) => git::risk(command),
        // These programs exist to write or run something, so a rule with a wildcard for them means that.
        ("tar" | "gtar" | "bsdtar", _) => risk_of_tar(command),
        ("gcc" | "g++" | "cc" | "c++" | "clang" | "clang++", _) => risk_of_compiler(command),
        ("env" | "unzip", _) | (_, None | Some(Reads | VersionOnly)) => None,
        (_, Some(profile)) => profile.objection(command),
    }
}

/// tar takes its first word as option letters even without a dash, and an archive with a colon in its name is on
/// another machine.
fn risk_of_tar(command: &Command) -> Option<String> {
    let letters =
        command.args().next().is_some_and(|first| !first.starts_with('-') && first.contains(['I', 'F']));
    let remote = command.args().any(|arg| arg.contains(':'));
    (letters || remote).then(|| "`tar` may run another program as it is called".to_owned())
}

fn risk_of_compiler(command: &Command) -> Option<String> {
    let runs = ["-fplugin", "-wrapper", "-specs", "@", "-load", "-Xclang"];
    let option = command.args().find(|arg| runs.iter().any(|option| arg.starts_with(option)));
    option.map(|option| format!("`{option}` may run another program"))
}

impl Profile {
    /// The reason why a command may do more than read.
    pub(super) fn objection(&self, command: &Command) -> Option<String> {
        let name = command.name();
        match self {
            Reads => None,
            ReadsExcept(options) => options
                .find(command.args())
                .map(|option| format!("`{name} {option}` can write or run something")),
            SingleOperand => {
                has_args_after_operand(command.args()).then(|| format!("`{name}` writes to a second file"))
            }
            VersionOnly => version(command).err(),
            Check(check) => check(command).err(),
        }
    }
}

fn all_args(command: &Command, fits: impl Fn(&str) -> bool) -> Result<(), String> {
    match command.args().find(|arg| !fits(arg)) {
        Some(arg) => Err(format!("`{} {arg}` is not known to only read", command.name())),
        None => Ok(()),
    }
}

fn no_args(command: &Command) -> Result<(), String> {
    all_args(command, |_| false)
}

/// Accepts the number of loops to leave.
fn levels(command: &Command) -> Result<(), String> {
    all_args(command, |arg| arg.bytes().all(|c| c.is_ascii_digit()))
}

fn date(command: &Command) -> Result<(), String> {
    let sets = Options { short: "s", valued: "dfIr", long: &["--set"] };
    let mut before = "";
    for arg in command.args() {
        // An operand that is no format is the time to set.
        let value = matches!(before, "-d" | "--date" | "-r" | "--reference" | "-f" | "--file");
        if sets.find([arg].into_iter()).is_some() || !(value || arg.starts_with(['-', '+'])) {
            return Err(format!("`date {arg}` can set the clock"));
        }
        before = arg;
    }
    Ok(())
}

fn hostname(command: &Command) -> Result<(), String> {
    all_args(command, |arg| matches!(arg, "-f" | "-i" | "-I" | "-s" | "-A" | "-d" | "--fqdn" | "--short"))
}

fn find(command: &Command) -> Result<(), String> {
    let acts = |arg: &str| {
        matches!(
            arg,
            "-exec"
                | "-execdir"
                | "-ok"
                | "-okdir"
                | "-delete"
                | "-fprint"
                | "-fprint0"
                | "-fprintf"
                | "-fls"
        )
    };
    all_args(command, |arg| !acts(arg))
}

/// Accepts a program without any construct that writes a file or runs a command.
fn awk(command: &Command) -> Result<(), String> {
    let mut words = command.argv.iter().skip(1);
    while let Some(word) = words.next() {
        let text = word.text();
        if matches!(text, "-F" | "-v") {
            words.next();
        } else if text.starts_with("-F") || text.starts_with("-v") {
        } else if text.starts_with('-') || !word.is_literal() {
            return Err(format!("`awk {text}` is not known to only read"));
        } else {
            let safe = !["system", "getline", ">", "|", "@", "close", "fflush"]
                .iter()
                .any(|part| text.contains(part));
            return if safe { Ok(()) } else { Err("the awk program may write or run something".to_owned()) };
        }
    }
    Err("`awk` without a program".to_owned())
}

/// Accepts `tar tf ARCHIVE`, which lists.
fn tar(command: &Command) -> Result<(), String> {
    let letters = command.args().next().unwrap_or_default();
    let letters = letters.strip_prefix('-').unwrap_or(letters);
    let lists =
        letters.starts_with('t') && letters.ends_with('f') && letters.chars().all(|c| "tvzjJf".contains(c));
    if lists && command.args().skip(1).all(|arg| !arg.starts_with('-') && !arg.contains(':')) {
        Ok(())
    } else {
        Err("`tar` writes unless it only lists".to_owned())
    }
}

fn unzip(command: &Command) -> Result<(), String> {
    let lists = matches!(command.args().next(), Some("-l" | "-v" | "-Z" | "-t"));
    if lists && command.args().skip(1).all(|arg| !arg.starts_with('-')) {
        Ok(())
    } else {
        Err("`unzip` writes unless it only lists".to_owned())
    }
}

fn dd(command: &Command) -> Result<(), String> {
    all_args(command, |arg| {
        ["if=", "bs=", "ibs=", "count=", "skip=", "status="].iter().any(|known| arg.starts_with(known))
    })
}

/// Rejects operands with an array index, which bash evaluates, substitutions included.
fn test(command: &Command) -> Result<(), String> {
    all_args(command, |arg| !arg.contains('[') && !matches!(arg, "-v" | "-R"))
}

fn printf(command: &Command) -> Result<(), String> {
    let stores = |arg: &str| {
        arg.match_indices('%').any(|(at, _)| {
            let rest = arg.get(at + 1..).unwrap_or_default();
            rest.trim_start_matches(|c: char| c.is_ascii_digit() || "-+ #'.*hlLjzt".contains(c))
                .starts_with('n')
        })
    };
    all_args(command, |arg| !arg.starts_with("-v") && !stores(arg))
}

fn version(command: &Command) -> Result<(), String> {
    let words: Vec<&str> = command.args().collect();
    let fits = matches!(
        (command.name(), words.as_slice()),
        (_, ["--version"])
            | ("go", ["version"])
            | ("java" | "javac", ["-version"])
            | ("python" | "python3" | "cargo" | "rustc" | "pip" | "pip3", ["-V"])
            | ("node" | "npm" | "ruby" | "perl", ["-v"])
    );
    if fits { Ok(()) } else { Err(format!("what `{}` changes or reaches is not known", command.name())) }
}
