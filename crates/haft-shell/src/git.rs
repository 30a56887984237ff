//! git: which subcommands only read, and which options make git run or write something.

use super::options::Options;
use super::{Command, Word};

/// Options that git knows before a subcommand and that change nothing of what it does.
const HARMLESS: &[&str] =
    &["--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs", "--no-replace-objects"];

/// Subcommands that only read, whatever comes behind them but for [`RISKY`].
#[rustfmt::skip]
const READERS: &[&str] = &[
    "status", "log", "show", "diff", "rev-parse", "ls-files", "ls-tree", "cat-file", "blame", "annotate",
    "shortlog", "describe", "rev-list", "merge-base", "name-rev", "grep", "diff-tree", "diff-index",
    "diff-files", "for-each-ref", "show-ref", "count-objects", "check-ignore", "check-attr",
    "check-ref-format", "whatchanged", "cherry", "show-branch", "version", "range-diff", "verify-pack",
    "var",
];

/// Options that run a program or write a file in one subcommand or another.
const RISKY: Options = Options {
    short: "",
    valued: "",
    long: &[
        "--output",
        "--ext-diff",
        "--textconv",
        "--filters",
        "--open-files-in-pager",
        "--upload-pack",
        "--receive-pack",
        "--exec",
        "--extcmd",
        "--show-signature",
        "--exec-path",
        "--config-env",
        "--template",
        "--separate-git-dir",
    ],
};

/// Subcommands that run what they are told, or change what git will run.
#[rustfmt::skip]
const RUNNERS: &[&str] = &[
    "bisect", "filter-branch", "difftool", "mergetool", "config", "submodule", "hook", "instaweb",
    "send-email", "daemon", "credential", "p4", "svn", "gui", "citool", "help", "shell", "upload-pack",
    "receive-pack", "archive", "maintenance", "fast-import", "fsmonitor--daemon", "for-each-repo",
    "remote-ext", "web--browse", "rebase", "am", "init", "scalar",
];

/// Flags of `git branch` and `git tag` that go with a list.
#[rustfmt::skip]
const LISTS: &[&str] = &[
    "-a", "-r", "-v", "-vv", "-n", "--all", "--remotes", "--verbose", "--show-current", "--no-color",
    "--color", "--column", "--no-column", "--ignore-case", "-i",
];
/// Those that make what follows a pattern and not a name to create.
const SELECTS: &[&str] = &["--list", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at"];

/// The subcommand and what is behind it.
fn split(command: &Command) -> Result<(&str, &[Word]), String> {
    let args = command.argv.get(1..).unwrap_or_default();
    let at = args.iter().position(|arg| !HARMLESS.contains(&arg.text()));
    match at.and_then(|at| args.get(at).zip(args.get(at + 1..))) {
        Some((subcommand, rest)) if !subcommand.text().starts_with('-') => Ok((subcommand.text(), rest)),
        Some((option, [])) if option.text() == "--version" => Ok(("version", &[])),
        Some((option, _)) => Err(format!("`git {}` changes what git does or where", option.text())),
        None => Err("`git` without a subcommand".to_owned()),
    }
}

/// Whether a call of git only reads. The index, which git brings up to date while it reads, does not count.
pub(super) fn read_only(command: &Command) -> Result<(), String> {
    if command.cwd != super::Cwd::Start {
        return Err("git may run what is configured in the folder that was changed to".to_owned());
    }
    let (subcommand, rest) = split(command)?;
    let words: Vec<&str> = rest.iter().map(Word::text).collect();
    if let Some(risk) = risky(subcommand, &words) {
        return Err(risk);
    }
    let reads = match subcommand {
        "branch" | "tag" => lists(subcommand, &words),
        "remote" => matches!(words.as_slice(), [] | ["-v" | "--verbose"] | ["get-url", _]),
        "stash" => matches!(words.first(), Some(&("list" | "show"))),
        "worktree" => words.first() == Some(&"list"),
        "reflog" => words.first().is_none_or(|first| *first == "show" || first.starts_with('-')),
        "symbolic-ref" => {
            matches!(words.as_slice(), [name] | ["--short" | "-q", name] if !name.starts_with('-'))
        }
        "config" => reads_settings(&words),
        subcommand => READERS.contains(&subcommand),
    };
    if reads { Ok(()) } else { Err(format!("`git {subcommand}` is not known to only read as it is called")) }
}

/// What keeps a rule with a wildcard from covering a call of git.
pub(super) fn risk(command: &Command) -> Option<String> {
    let (subcommand, rest) = match split(command) {
        Ok(split) => split,
        Err(why) => return Some(why),
    };
    let words: Vec<&str> = rest.iter().map(Word::text).collect();
    if RUNNERS.contains(&subcommand) && !(subcommand == "config" && reads_settings(&words)) {
        return Some(format!("`git {subcommand}` can run programs or set what git runs"));
    }
    if command.cwd != super::Cwd::Start {
        return Some("git may run what is configured in the folder that was changed to".to_owned());
    }
    risky(subcommand, &words)
}

fn risky(subcommand: &str, words: &[&str]) -> Option<String> {
    let short = match subcommand {
        "grep" => "O",
        "clone" => "uc",
        _ => "",
    };
    // The letters behind these are their values.
    let valued = if subcommand == "grep" { "efmABC" } else { "" };
    let short = Options { short, valued, long: &[] };
    let option = RISKY.find(words.iter().copied()).or_else(|| short.find(words.iter().copied()));
    // A transport that is a command, and formats that have signatures checked.
    let option = option.or_else(|| {
        words
            .iter()
            .copied()
            .find(|word| word.contains("::") || word.contains("%G") || word.contains("%(sign"))
    });
    option.map(|option| format!("`git {subcommand} {option}` can run or write something else"))
}

fn lists(subcommand: &str, words: &[&str]) -> bool {
    let selects = |word: &str| {
        SELECTS.contains(&word.split('=').next().unwrap_or(word)) || (word == "-l" && subcommand == "tag")
    };
    let any = words.iter().any(|word| selects(word));
    words.iter().all(|word| {
        // `git tag -v` has signatures checked, `-a` makes one.
        let listed = if subcommand == "tag" { *word == "-n" || word.starts_with("--") } else { true };
        let known = (listed && LISTS.contains(word))
            || selects(word)
            || word.starts_with("--sort=")
            || word.starts_with("--format=");
        known || (any && !word.starts_with('-'))
    })
}

fn reads_settings(words: &[&str]) -> bool {
    let flags = ["--get", "--get-all", "--get-regexp", "--get-urlmatch", "--list", "-l"];
    let known = [
        "--global",
        "--local",
        "--system",
        "--worktree",
        "--show-origin",
        "--show-scope",
        "--name-only",
        "-z",
        "--null",
        "--includes",
        "--bool",
        "--int",
        "--path",
    ];
    let reads = words.iter().any(|word| flags.contains(word));
    let options =
        words.iter().all(|word| !word.starts_with('-') || flags.contains(word) || known.contains(word));
    options
        && (reads
            || (words.len() == 1 && words.iter().all(|word| word.contains('.') && !word.starts_with('-'))))
}
