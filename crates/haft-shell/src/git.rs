//! The table of git's subcommands that only read, and of options that make git run or write something.

use super::options::Options;
use super::{Command, Word};

/// Options before the subcommand that do not change what git does.
const HARMLESS: &[&str] =
    &["--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs", "--no-replace-objects"];

/// Subcommands that only read, with any arguments except [`RISKY`] ones.
#[rustfmt::skip]
const READERS: &[&str] = &[
    "status", "log", "show", "diff", "rev-parse", "ls-files", "ls-tree", "cat-file", "blame", "annotate",
    "shortlog", "describe", "rev-list", "merge-base", "name-rev", "grep", "diff-tree", "diff-index",
    "diff-files", "for-each-ref", "show-ref", "count-objects", "check-ignore", "check-attr",
    "check-ref-format", "whatchanged", "cherry", "show-branch", "version", "range-diff", "verify-pack",
    "var",
];

/// Options that make some subcommand run a program or write a file.
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

/// Subcommands that run a given program, or configure one that git runs later.
#[rustfmt::skip]
const RUNNERS: &[&str] = &[
    "bisect", "filter-branch", "difftool", "mergetool", "config", "submodule", "hook", "instaweb",
    "send-email", "daemon", "credential", "p4", "svn", "gui", "citool", "help", "shell", "upload-pack",
    "receive-pack", "archive", "maintenance", "fast-import", "fsmonitor--daemon", "for-each-repo",
    "remote-ext", "web--browse", "rebase", "am", "init", "scalar",
];

/// Flags with which `git branch` and `git tag` still only list.
#[rustfmt::skip]
const LIST_FLAGS: &[&str] = &[
    "-a", "-r", "-v", "-vv", "-n", "--all", "--remotes", "--verbose", "--show-current", "--no-color",
    "--color", "--column", "--no-column", "--ignore-case", "-i",
];
/// Options of `git branch` and `git tag` that make an operand a pattern to list, not a name to create.
const LIST_FILTERS: &[&str] =
    &["--list", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at"];

/// Splits off the subcommand. Fails if an option before it may change what git does.
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

/// Checks that a git command only reads. The index, which git refreshes while it reads, does not count.
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
        "branch" | "tag" => only_lists(subcommand, &words),
        "remote" => matches!(words.as_slice(), [] | ["-v" | "--verbose"] | ["get-url", _]),
        "stash" => matches!(words.first(), Some(&("list" | "show"))),
        "worktree" => words.first() == Some(&"list"),
        "reflog" => words.first().is_none_or(|first| *first == "show" || first.starts_with('-')),
        "symbolic-ref" => {
            matches!(words.as_slice(), [name] | ["--short" | "-q", name] if !name.starts_with('-'))
        }
        "config" => only_reads_config(&words),
        subcommand => READERS.contains(&subcommand),
    };
    if reads { Ok(()) } else { Err(format!("`git {subcommand}` is not known to only read as it is called")) }
}

/// The reason why a rule with a wildcard must not cover a git command.
pub(super) fn risk(command: &Command) -> Option<String> {
    let (subcommand, rest) = match split(command) {
        Ok(split) => split,
        Err(why) => return Some(why),
    };
    let words: Vec<&str> = rest.iter().map(Word::text).collect();
    if RUNNERS.contains(&subcommand) && !(subcommand == "config" && only_reads_config(&words)) {
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
    // The rest of a word behind one of these letters is its value.
    let valued = if subcommand == "grep" { "efmABC" } else { "" };
    let short = Options { short, valued, long: &[] };
    let option = RISKY.find(words.iter().copied()).or_else(|| short.find(words.iter().copied()));
    // `ext::COMMAND` is a transport that runs a command; `%G` formats run a program to verify signatures.
    let option = option.or_else(|| {
        words
            .iter()
            .copied()
            .find(|word| word.contains("::") || word.contains("%G") || word.contains("%(sign"))
    });
    option.map(|option| format!("`git {subcommand} {option}` can run or write something else"))
}

fn only_lists(subcommand: &str, words: &[&str]) -> bool {
    let selects = |word: &str| {
        LIST_FILTERS.contains(&word.split('=').next().unwrap_or(word))
            || (word == "-l" && subcommand == "tag")
    };
    let any = words.iter().any(|word| selects(word));
    words.iter().all(|word| {
        // `git tag -v` runs a program to verify signatures, `-a` creates a tag.
        let listed = if subcommand == "tag" { *word == "-n" || word.starts_with("--") } else { true };
        let known = (listed && LIST_FLAGS.contains(word))
            || selects(word)
            || word.starts_with("--sort=")
            || word.starts_with("--format=");
        known || (any && !word.starts_with('-'))
    })
}

fn only_reads_config(words: &[&str]) -> bool {
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
