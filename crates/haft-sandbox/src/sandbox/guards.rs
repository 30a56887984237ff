//! Guarded paths that do not exist yet: a command must not create them, because other programs run what they contain (git
//! hooks, editor tasks). Nothing is put in their place, which a command could see or copy: what was planted is renamed when
//! the command has ended. What haft itself makes meanwhile, with its user's approval, stays.
//!
//! A command may make a repository: `git init` and `git clone` are everyday work. Afterwards its configuration keeps only
//! settings that cannot make git run programs, and its hooks are renamed.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, MutexGuard};

use super::policy::Policy;

/// Suffix of files that were set aside.
const ASIDE_SUFFIX: &str = ".set-aside";
/// Name of a repository's folder.
const GIT: &str = ".git";

/// The guarded paths of a policy, with `.git` links and files resolved to the repositories that they point to. Targets that
/// the command could not write anyway are left out: a `.git` file can name any folder.
pub(super) fn resolved(policy: &Policy) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for path in &policy.guarded {
        let git = path.ancestors().find(|above| above.ends_with(GIT));
        let pointer = git.filter(|git| git.is_symlink() || git.is_file());
        let Some((git, inside)) = pointer.and_then(|git| Some((git, path.strip_prefix(git).ok()?))) else {
            paths.push(path.clone());
            continue;
        };
        let targets = git_folders(git).into_iter().map(|target| target.join(inside));
        paths.extend(targets.filter(|target| is_below(target, &policy.write)));
        paths.push(git.to_owned());
    }
    paths.sort();
    paths.dedup();
    paths
}

/// The folders that a `.git` link or file points to: the working tree's own, and the repository's, which it shares with other
/// working trees.
fn git_folders(git: &Path) -> Vec<PathBuf> {
    let from = |folder: &Path, text: &str| folder.join(text.trim()).canonicalize().ok();
    let real = match fs::read_to_string(git) {
        Ok(text) => text.strip_prefix("gitdir:").and_then(|text| from(git.parent()?, text)),
        Err(_) => git.is_symlink().then(|| git.canonicalize().ok()).flatten(),
    };
    let Some(real) = real else { return Vec::new() };
    let common = fs::read_to_string(real.join("commondir")).ok().and_then(|text| from(&real, &text));
    [real].into_iter().chain(common).collect()
}

/// The repository that a linked working tree (`git worktree add`) shares with others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedRepository {
    /// The repository's folder.
    pub repository: PathBuf,
    /// The folders in it that belong to the other working trees.
    pub others: Vec<PathBuf>,
}

/// The repository of a folder that is a linked working tree. The folder and the repository have to name each other: a `.git`
/// file alone can name any folder, but only a user who may write to the repository can make it name this one.
pub fn shared_repository(folder: &Path) -> Option<SharedRepository> {
    let git = folder.join(GIT);
    if !fs::symlink_metadata(&git).ok()?.is_file() {
        return None;
    }
    let [own, repository] = git_folders(&git).try_into().ok()?;
    let trees = repository.join("worktrees");
    let back_reference = fs::read_to_string(own.join("gitdir")).ok()?;
    // The path may be relative to the folder that the file is in.
    let is_mutual = own.join(back_reference.trim()).canonicalize().ok()? == git.canonicalize().ok()?;
    if own.parent() != Some(&trees) || !is_mutual {
        return None;
    }
    let others = fs::read_dir(&trees).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    Some(SharedRepository { others: others.filter(|tree| *tree != own).collect(), repository })
}

/// What haft itself makes while commands run, for the guards of these commands.
#[derive(Default)]
struct MadeByHaft {
    /// How many commands with guards run.
    commands: usize,
    paths: Vec<PathBuf>,
}

fn made() -> MutexGuard<'static, MadeByHaft> {
    static MADE: OnceLock<Mutex<MadeByHaft>> = OnceLock::new();
    MADE.get_or_init(Mutex::default).lock()
}

/// Notes that haft makes a file or folder, so that it is not taken for something that a running command has planted.
pub(crate) fn made_by_haft(path: &Path) {
    let mut made = made();
    if made.commands > 0 && !made.paths.iter().any(|known| known == path) {
        made.paths.push(path.to_owned());
    }
}

/// Guards of a running command.
#[derive(Debug, Default)]
pub(super) struct Guards {
    /// Missing paths, to check afterwards.
    watched: Vec<PathBuf>,
    /// Links to restore afterwards, with their targets.
    links: Vec<(PathBuf, PathBuf)>,
}

impl Guards {
    /// Notes which guarded paths are missing and which are links. To be called before a command starts.
    pub(super) fn before(policy: &Policy) -> Self {
        let mut guards = Self::default();
        for path in &policy.guarded {
            match fs::read_link(path) {
                Ok(target) => guards.links.push((path.clone(), target)),
                Err(_) if !exists(path) => guards.watched.push(path.clone()),
                Err(_) => {}
            }
        }
        made().commands += 1;
        guards
    }

    /// Tells which paths a command must not create. In a repository that it makes itself, it may: `git init` and `git clone`
    /// are everyday work, and what they make is looked at afterwards.
    pub(super) fn deny(&self) -> Arc<dyn Fn(&Path) -> bool + Send + Sync> {
        let is_new_repository = |path: &&PathBuf| {
            path.ancestors().find(|above| above.ends_with(GIT)).is_some_and(|git| !exists(git))
        };
        let denied: Vec<PathBuf> =
            self.watched.iter().filter(|path| !is_new_repository(path)).cloned().collect();
        Arc::new(move |path| denied.iter().any(|denied| path.starts_with(denied)))
    }

    /// Renames what was planted and restores links. To be called when every process has ended. Returns the new names.
    pub(super) fn restore(mut self) -> Vec<PathBuf> {
        let mut aside = Vec::new();
        let made = made().paths.clone();
        for path in std::mem::take(&mut self.watched) {
            // Of a `.git` link or file, rename that and not the files it points to.
            let git = path.ancestors().find(|above| above.ends_with(GIT));
            match git.filter(|git| git.is_symlink() || git.is_file()) {
                Some(git) => aside.extend(set_aside(git)),
                None if !has_no_links_above(&path) || !exists(&path) => {}
                None => aside.extend(disarm_but(&path, &made)),
            }
        }
        for (path, target) in std::mem::take(&mut self.links) {
            if fs::read_link(&path).ok().as_ref() != Some(&target) {
                aside.extend(exists(&path).then(|| set_aside(&path)).flatten());
                let _ = std::os::unix::fs::symlink(target, &path);
            }
        }
        aside
    }
}

impl Drop for Guards {
    fn drop(&mut self) {
        let mut made = made();
        made.commands -= 1;
        if made.commands == 0 {
            made.paths = Vec::new();
        }
    }
}

/// Disarms a planted path, but not what haft made there.
fn disarm_but(path: &Path, made: &[PathBuf]) -> Vec<PathBuf> {
    let made_below: Vec<PathBuf> = made.iter().filter(|made| made.starts_with(path)).cloned().collect();
    if made_below.is_empty() {
        return disarm(path);
    }
    if !path.is_dir() || path.is_symlink() {
        return Vec::new();
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.collect::<Vec<_>>().iter().flat_map(|entry| disarm_but(entry, &made_below)).collect()
}

fn is_below(path: &Path, folders: &[PathBuf]) -> bool {
    folders.iter().any(|folder| path.starts_with(folder) && path != folder)
}

/// Whether no folder above a path is a link.
fn has_no_links_above(path: &Path) -> bool {
    path.parent().is_some_and(|above| above.canonicalize().is_ok_and(|real| real == above))
}

fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// Makes a planted path harmless. Returns the new names of what it set aside.
pub(super) fn disarm(path: &Path) -> Vec<PathBuf> {
    let in_git = path.ancestors().nth(1).is_some_and(|above| above.ends_with(GIT));
    match path.file_name().and_then(|name| name.to_str()) {
        Some("hooks") if in_git && path.is_dir() && !path.is_symlink() => {
            let hooks = fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
            let live = hooks.filter(|hook| hook.extension().is_none_or(|end| end != "sample"));
            live.collect::<Vec<_>>().iter().filter_map(|hook| set_aside(hook)).collect()
        }
        Some("config") if in_git && !path.is_symlink() => {
            let Ok(text) = fs::read_to_string(path) else { return set_aside(path).into_iter().collect() };
            let harmless = harmless_config(&text);
            if harmless == text {
                return Vec::new();
            }
            let aside = set_aside(path);
            let _ = fs::File::create_new(path).and_then(|mut file| file.write_all(harmless.as_bytes()));
            aside.into_iter().collect()
        }
        _ => set_aside(path).into_iter().collect(),
    }
}

/// Filters a repository's configuration, by an allow list, to settings that cannot make git run programs: its format, its
/// remotes and branches, its user.
fn harmless_config(text: &str) -> String {
    const CORE: [&str; 8] = [
        "repositoryformatversion",
        "filemode",
        "bare",
        "logallrefupdates",
        "symlinks",
        "ignorecase",
        "precomposeunicode",
        "autocrlf",
    ];
    let mut section = String::new();
    let mut is_continued = false;
    let mut is_harmless = |line: &str| {
        let was_continued = std::mem::replace(&mut is_continued, line.ends_with('\\'));
        let line = line.trim();
        if was_continued || is_continued {
            return false;
        }
        if let Some(header) = line.strip_prefix('[') {
            // A key may follow its section on the same line.
            let Some((name, "")) = header.split_once(']') else { return false };
            section = name.split([' ', '"']).next().unwrap_or_default().to_lowercase();
            return true;
        }
        let key = line.split('=').next().unwrap_or_default().trim().to_lowercase();
        line.is_empty()
            || line.starts_with(['#', ';'])
            || match &*section {
                "core" => CORE.contains(&&*key),
                "remote" => ["url", "fetch", "pushurl"].contains(&&*key),
                "branch" => ["remote", "merge", "rebase"].contains(&&*key),
                "user" => ["name", "email"].contains(&&*key),
                "extensions" => ["objectformat", "refstorage", "worktreeconfig"].contains(&&*key),
                "submodule" => ["url", "active"].contains(&&*key),
                "gc" | "maintenance" => key == "auto",
                "pull" => key == "rebase",
                "push" => ["default", "autosetupremote"].contains(&&*key),
                _ => false,
            }
    };
    text.split_inclusive('\n').filter(|line| is_harmless(line.trim_end_matches(['\n', '\r']))).collect()
}

/// Renames a planted path. It is not deleted, because another program may have made it.
fn set_aside(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?;
    (0..100).find_map(|count| {
        let mut other = name.to_owned();
        other.push(if count == 0 { ASIDE_SUFFIX.to_owned() } else { format!("{ASIDE_SUFFIX}-{count}") });
        let other = path.with_file_name(other);
        let flags = rustix::fs::RenameFlags::NOREPLACE;
        let renamed = rustix::fs::renameat_with(rustix::fs::CWD, path, rustix::fs::CWD, &other, flags);
        renamed.is_ok().then_some(other)
    })
}

#[cfg(test)]
mod tests {
    use super::harmless_config;

    #[test]
    fn a_configuration_keeps_only_settings_that_run_nothing() {
        let fresh = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\
            [remote \"origin\"]\n\turl = ../main\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n\
            [branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n[user]\n\tname = n\n";
        assert_eq!(harmless_config(fresh), fresh);
        for planted in [
            "[core]\n\tfsmonitor = evil\n",
            "[core]\n\thooksPath = .evil\n",
            "[core] pager = evil\n",
            "[CORE]\n\tSSHCommand=evil\n",
            "[alias]\n\tst = !evil\n",
            "[include]\n\tpath = ../evil\n",
            "[includeIf \"gitdir:/\"]\n\tpath = ../evil\n",
            "[filter \"x\"]\n\tclean = evil\n",
            "[remote \"origin\"]\n\tuploadpack = evil\n",
            "[remote \"origin\"]\n\tvcs = ext\n",
            "[user]\n\tname = a\\\n\tb\n[core]\n\tfsmonitor = evil\n",
            "[credential]\n\thelper = !evil\n",
            "[diff]\n\texternal = evil\n",
        ] {
            let kept = harmless_config(&format!("{fresh}{planted}"));
            assert!(kept.starts_with(fresh) && !kept.contains("evil") && !kept.contains("ext"), "{kept}");
        }
    }
}
