//! Arguments of programs with subcommands: which of them are files, and what git does to its repository.

use super::accesses::Repository;
use super::{Command, Word};

/// Subcommands of git whose operands name branches, remotes, commits or settings, and no files.
#[rustfmt::skip]
const WITHOUT_FILES: &[&str] = &[
    "push", "pull", "fetch", "merge", "rebase", "tag", "branch", "remote", "switch", "cherry-pick", "revert",
    "stash", "clone", "init", "config", "worktree", "bisect", "submodule", "notes", "gc", "reflog", "bundle",
];
/// Subcommands of git that change its repository and no file that is checked out.
const REPOSITORY_ONLY: &[&str] = &["commit", "add", "tag", "branch", "notes", "reflog", "update-ref", "gc"];
/// Subcommands of git that talk to other repositories.
const NETWORK: &[&str] =
    &["push", "pull", "fetch", "clone", "ls-remote", "remote", "submodule", "archive", "send-email"];
/// Options of git subcommands whose next word is a value, and no file.
#[rustfmt::skip]
const VALUES: &[&str] = &[
    "-C", "-c", "-m", "--message", "--author", "--date", "--trailer", "-b", "-B", "-n", "--format", "--since",
    "--until", "--grep", "-S", "-G", "-L", "-u",
];

/// The operands of a command behind its subcommand, without values of options of git.
pub(super) fn operands(command: &Command) -> Vec<&Word> {
    let is_git = command.name() == "git";
    let mut found = Vec::new();
    let mut words = command.argv.iter().skip(1);
    let mut only_operands = false;
    while let Some(word) = words.next() {
        let text = word.text();
        let is_option = !only_operands && text.len() > 1 && text.starts_with('-');
        if text == "--" {
            only_operands = true;
        } else if is_option && is_git {
            let takes_message = !text.starts_with("--") && text.ends_with('m');
            if VALUES.contains(&text) || takes_message {
                words.next();
            }
        } else if !is_option {
            found.push(word);
        }
    }
    found.into_iter().skip(1).collect()
}

/// The subcommand of a git command.
fn subcommand(command: &Command) -> &str {
    let mut args = command.args();
    while let Some(arg) = args.next() {
        match arg {
            "-C" | "-c" => drop(args.next()),
            arg if arg.starts_with('-') => {}
            arg => return arg,
        }
    }
    ""
}

/// The operands that may be files.
pub(super) fn files(command: &Command) -> Vec<&Word> {
    let operands = operands(command);
    if command.name() == "git" {
        let has_files = !WITHOUT_FILES.contains(&subcommand(command));
        return operands.into_iter().filter(|_| has_files).collect();
    }
    // Names of packages, tests and scripts look like words; files of a project have a folder or an ending.
    let may_be_file = |word: &&Word| {
        let text = word.text();
        !word.is_literal() || text.contains(['/', '.']) && !text.contains(['@', '=']) && !text.contains("://")
    };
    operands.into_iter().filter(may_be_file).collect()
}

/// What a git command does to its repository.
pub(super) fn repository(command: &Command) -> Repository {
    match super::git::read_only(command) {
        Ok(()) => Repository::Read,
        Err(_) => Repository::Changed,
    }
}

/// Whether a git command changes its repository and nothing else, apart from what its hooks do.
pub(super) fn only_changes_repository(command: &Command) -> bool {
    REPOSITORY_ONLY.contains(&subcommand(command)) && super::git::risk(command).is_none()
}

/// Whether a git command talks to other repositories.
pub(super) fn uses_network(command: &Command) -> bool {
    NETWORK.contains(&subcommand(command))
}
