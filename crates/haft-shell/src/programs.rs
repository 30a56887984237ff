//! The table of programs that only read, and of the options that make them or others write or run something.

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

use super::options::{Options, goes_on_behind_operand};
use super::{Command, git, sed};

/// What a program does.
pub(super) enum Nature {
    /// It reads, whatever its arguments are.
    Reads,
    /// It reads, but for these options.
    Except(Options),
    /// It reads, but a second file name is written to.
    OneOperand,
    /// It tells its version, and otherwise does whatever it is told.
    Version,
    /// Its arguments have to be looked at.
    Judge(fn(&Command) -> Result<(), String>),
}

use Nature::{Except, Judge, OneOperand, Reads, Version};

const fn except(short: &'static str, valued: &'static str, long: &'static [&'static str]) -> Nature {
    Except(Options { short, valued, long })
}

/// Programs that are known to read only, with what they need for it. What `command` runs is judged by itself.
#[rustfmt::skip]
static READERS: &[(&[&str], Nature)] = &[
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
    (&["uniq", "xxd"], OneOperand),
    (&["date"], Judge(date)),
    (&["hostname"], Judge(hostname)),
    (&["find"], Judge(find)),
    (&["git"], Judge(git::read_only)),
    (&["sed", "gsed"], Judge(sed::read_only)),
    (&["awk", "gawk", "mawk", "nawk"], Judge(awk)),
    (&["tar"], Judge(tar)),
    (&["unzip"], Judge(unzip)),
    (&["dd"], Judge(dd)),
    (&["tee", "env"], Judge(nothing)),
    (&["test", "["], Judge(test)),
    (&["printf"], Judge(printf)),
    (
        &[
            "cargo", "rustc", "npm", "node", "python", "python3", "pip", "pip3", "go", "ruby", "perl",
            "java", "javac", "gcc", "g++", "clang", "cmake", "deno", "bun",
        ],
        Version,
    ),
];

/// Options with which other programs run what an argument says, or write where nobody expects it.
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

pub(super) fn nature(name: &str) -> Option<&'static Nature> {
    static BY_NAME: LazyLock<FxHashMap<&str, &Nature>> = LazyLock::new(|| {
        READERS.iter().flat_map(|(names, nature)| names.iter().map(move |name| (*name, nature))).collect()
    });
    BY_NAME.get(name).copied()
}

/// What keeps a rule with a wildcard from covering a command: options that were hardly meant by it.
pub(super) fn risk(command: &Command) -> Option<String> {
    let name = command.name();
    let option = RISKY
        .iter()
        .find(|(names, _)| names.contains(&name))
        .and_then(|(_, options)| options.find(command.args()));
    if let Some(option) = option {
        return Some(format!("`{name} {option}` can run or write something else"));
    }
    match (name, nature(name)) {
        ("git", _) => git::risk(command),
        // What these are for is to write or run; a rule with a wildcard for them means that.
        ("tar" | "gtar" | "bsdtar", _) => risk_of_tar(command),
        ("gcc" | "g++" | "cc" | "c++" | "clang" | "clang++", _) => risk_of_compiler(command),
        ("env" | "unzip", _) | (_, None | Some(Reads | Version)) => None,
        (_, Some(nature)) => nature.objection(command),
    }
}

/// Letters need no dash as the first word, and an archive with a colon in its name is on another machine.
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

impl Nature {
    /// What makes a command more than reading.
    pub(super) fn objection(&self, command: &Command) -> Option<String> {
        let name = command.name();
        match self {
            Reads => None,
            Except(options) => options
                .find(command.args())
                .map(|option| format!("`{name} {option}` can write or run something")),
            OneOperand => {
                goes_on_behind_operand(command.args()).then(|| format!("`{name}` writes to a second file"))
            }
            Version => version(command).err(),
            Judge(judge) => judge(command).err(),
        }
    }
}

fn all(command: &Command, fits: impl Fn(&str) -> bool) -> Result<(), String> {
    match command.args().find(|arg| !fits(arg)) {
        Some(arg) => Err(format!("`{} {arg}` is not known to only read", command.name())),
        None => Ok(()),
    }
}

fn nothing(command: &Command) -> Result<(), String> {
    all(command, |_| false)
}

fn date(command: &Command) -> Result<(), String> {
    let sets = Options { short: "s", valued: "dfIr", long: &["--set"] };
    let mut before = "";
    for arg in command.args() {
        // Whatever is neither an option nor a format is the time to set.
        let value = matches!(before, "-d" | "--date" | "-r" | "--reference" | "-f" | "--file");
        if sets.find([arg].into_iter()).is_some() || !(value || arg.starts_with(['-', '+'])) {
            return Err(format!("`date {arg}` can set the clock"));
        }
        before = arg;
    }
    Ok(())
}

fn hostname(command: &Command) -> Result<(), String> {
    all(command, |arg| matches!(arg, "-f" | "-i" | "-I" | "-s" | "-A" | "-d" | "--fqdn" | "--short"))
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
    all(command, |arg| !acts(arg))
}

/// Only what has no way to a file or a program in it.
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

/// `tar tf ARCHIVE`.
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
    all(command, |arg| {
        ["if=", "bs=", "ibs=", "count=", "skip=", "status="].iter().any(|known| arg.starts_with(known))
    })
}

/// An index in an operand is evaluated.
fn test(command: &Command) -> Result<(), String> {
    all(command, |arg| !arg.contains('[') && !matches!(arg, "-v" | "-R"))
}

fn printf(command: &Command) -> Result<(), String> {
    let stores = |arg: &str| {
        arg.match_indices('%').any(|(at, _)| {
            let rest = arg.get(at + 1..).unwrap_or_default();
            rest.trim_start_matches(|c: char| c.is_ascii_digit() || "-+ #'.*hlLjzt".contains(c))
                .starts_with('n')
        })
    };
    all(command, |arg| !arg.starts_with("-v") && !stores(arg))
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
    if fits { Ok(()) } else { Err(format!("`{}` can do anything", command.name())) }
}
