//! What a person should look at twice among the changes of a command: what makes other programs run something, or decides
//! what is run.

use std::path::{Component, Path, PathBuf};

use haft_core::Context;
use haft_sandbox::sandbox::trial::{Change, ChangeKind};
use haft_sandbox::triggers;

/// Names of files and folders that tell a service what to run.
const CI: [&str; 9] = [
    ".gitlab-ci.yml",
    ".circleci",
    ".travis.yml",
    "Jenkinsfile",
    "azure-pipelines.yml",
    ".buildkite",
    ".drone.yml",
    ".woodpecker.yml",
    "bitbucket-pipelines.yml",
];

/// Names of files that decide which code is installed.
const LOCKS: [&str; 12] = [
    "Cargo.lock",
    "package-lock.json",
    "yarn.lock",
    "pnpm-lock.yaml",
    "bun.lock",
    "poetry.lock",
    "uv.lock",
    "Pipfile.lock",
    "Gemfile.lock",
    "composer.lock",
    "go.sum",
    "flake.lock",
];

/// Bits of executable files, and of those that run with their owner's rights.
const EXECUTABLE: u32 = 0o111;
const SET_ID: u32 = 0o6000;

/// What to look at twice about a change.
pub(super) fn of(change: &Change, cx: &Context) -> Vec<String> {
    let mut found = Vec::new();
    let folders = cx.session_workspace().folders();
    let below = folders.iter().filter_map(|folder| change.path.strip_prefix(&folder.path).ok());
    let below = below.min_by_key(|below| below.as_os_str().len()).unwrap_or(&change.path);
    let names = || below.iter().filter_map(|name| name.to_str());
    if change.kind != ChangeKind::Touched {
        // What git keeps of its own work is everyday; what makes it run something is guarded.
        if let Some(name) = below.iter().find(|name| *name != ".git" && triggers::is_asked(name)) {
            found.push(format!("`{}` makes other programs run something", name.display()));
        }
        if let Some(name) = names().find(|name| CI.contains(name)) {
            found.push(format!("`{name}` tells a service what to run"));
        }
        if let Some(name) = names().find(|name| LOCKS.contains(name)) {
            found.push(format!("`{name}` decides which code is installed"));
        }
    }
    if let Some(target) = &change.target {
        let target = Path::new(target);
        let folder = change.path.parent().unwrap_or(&change.path);
        let is_inside =
            folders.iter().any(|folder_| lexical(&folder.join(target)).starts_with(&folder_.path));
        if !is_inside {
            found.push(format!("the link leads out of the workspace, to `{}`", target.display()));
        }
    }
    let after = change.after.filter(|after| after.is_file());
    let before_mode = change.before.map_or(0, |before| before.mode);
    if let Some(after) = after {
        let gained = after.mode & !before_mode;
        if gained & EXECUTABLE != 0 && before_mode & EXECUTABLE == 0 {
            found.push("it is executable".to_owned());
        }
        if gained & SET_ID != 0 {
            found.push("it runs with its owner's rights".to_owned());
        }
    }
    if change.kind == ChangeKind::Changed
        && change.before.is_some_and(|before| before.is_file() && before.links > 1)
    {
        found.push("it has other hard links, which keep the old content".to_owned());
    }
    found
}

/// A path without `.` and `..`, by its text alone.
fn lexical(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(clean.pop()),
            Component::CurDir => {}
            part => clean.push(part),
        }
    }
    clean
}
