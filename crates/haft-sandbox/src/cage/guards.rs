//! Names that must not come into being while a command runs, because what is under them is run by others. In a
//! view they are taken: by an empty folder, or by a socket, which git and searches pass over and nobody can open.
//! Where there is no view, and in a repository that the command itself makes, what was planted is set aside.
//!
//! A repository that is made is not kept from being made: `git init` and `git clone` are everyday work. It keeps
//! its own configuration, without what makes git run programs, and its hooks are set aside.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use parking_lot::{Mutex, MutexGuard};

use super::policy::Policy;

/// What is added to the name of what is set aside.
const ASIDE: &str = ".set-aside";
/// Git's own folder.
const GIT: &str = ".git";
/// Names of files; the others are folders.
const FILES: [&str; 3] = [".mcp.json", ".envrc", "config"];
/// Files that git takes for broken if they are there and cannot be read, so that their names cannot be taken.
const WATCHED: [&str; 3] = ["commondir", "config.worktree", "attributes"];

/// What is to be guarded, when `.git` is not the folder itself but leads to it. What it leads to outside of what can be
/// written is none of haft's business: somebody may have it lead anywhere.
pub(super) fn resolved(policy: &Policy) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in &policy.guarded {
        let git = path.ancestors().find(|above| above.ends_with(GIT));
        let leads = git.filter(|git| git.is_symlink() || git.is_file());
        let Some((git, inside)) = leads.and_then(|git| Some((git, path.strip_prefix(git).ok()?))) else {
            found.push(path.clone());
            continue;
        };
        let real = real_gits(git).into_iter().map(|real| real.join(inside));
        found.extend(real.filter(|real| is_in(real, &policy.write)));
        found.push(git.to_owned());
    }
    found.sort();
    found.dedup();
    found
}

/// The folders that a `.git` leads to: one of a working tree, and the one that it shares with others.
fn real_gits(git: &Path) -> Vec<PathBuf> {
    let from = |folder: &Path, text: &str| folder.join(text.trim()).canonicalize().ok();
    let real = match fs::read_to_string(git) {
        Ok(text) => text.strip_prefix("gitdir:").and_then(|text| from(git.parent()?, text)),
        Err(_) => git.is_symlink().then(|| git.canonicalize().ok()).flatten(),
    };
    let Some(real) = real else { return Vec::new() };
    let common = fs::read_to_string(real.join("commondir")).ok().and_then(|text| from(&real, &text));
    [real].into_iter().chain(common).collect()
}

/// What a working tree of git shares with others, elsewhere: `git worktree add` makes such trees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shared {
    /// The repository's folder.
    pub repository: PathBuf,
    /// What belongs to the other working trees in it.
    pub others: Vec<PathBuf>,
}

/// The repository of a folder that is a linked working tree. Both have to say so: a `.git` alone can be made to lead
/// anywhere, but a repository that names this folder had it added by whoever may write there.
pub fn shared_repository(folder: &Path) -> Option<Shared> {
    let git = folder.join(GIT);
    if !fs::symlink_metadata(&git).ok()?.is_file() {
        return None;
    }
    let [own, repository] = real_gits(&git).try_into().ok()?;
    let trees = repository.join("worktrees");
    let says = fs::read_to_string(own.join("gitdir")).ok()?;
    // It may be told from there on.
    let is_meant = own.join(says.trim()).canonicalize().ok()? == git.canonicalize().ok()?;
    if own.parent() != Some(&trees) || !is_meant {
        return None;
    }
    let others = fs::read_dir(&trees).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    Some(Shared { others: others.filter(|tree| *tree != own).collect(), repository })
}

/// How many commands run that a name is taken for, by this process.
fn taken() -> MutexGuard<'static, HashMap<PathBuf, usize>> {
    static TAKEN: OnceLock<Mutex<HashMap<PathBuf, usize>>> = OnceLock::new();
    TAKEN.get_or_init(Mutex::default).lock()
}

/// What is looked after while a command runs. When it is dropped, the names are free again.
#[derive(Debug, Default)]
pub(super) struct Guards {
    /// Names that are taken.
    pub(super) masked: Vec<PathBuf>,
    /// Names that something may come to be under.
    watched: Vec<PathBuf>,
    /// Links that must stay what they are.
    links: Vec<(PathBuf, PathBuf)>,
}

impl Guards {
    /// To be called before a command starts.
    pub(super) fn before(policy: &Policy, has_view: bool) -> Self {
        let mut guards = Self::default();
        let mut taken = taken();
        for path in &policy.guarded {
            if let Ok(target) = fs::read_link(path) {
                guards.links.push((path.clone(), target));
                continue;
            }
            let git = path.ancestors().find(|above| above.ends_with(GIT));
            let free = |path: &Path| !exists(path) || taken.contains_key(path) || is_placeholder(path);
            let Some(topmost) = path.ancestors().take_while(|above| free(above)).last() else { continue };
            let is_made_anew = git.is_some_and(|git| git.starts_with(topmost));
            let is_watched = WATCHED.iter().any(|name| path.ends_with(name));
            match has_view && !is_made_anew && !is_watched && is_in(topmost, &policy.write) {
                true => guards.masked.push(topmost.to_owned()),
                false => guards.watched.push(path.clone()),
            }
        }
        guards.masked.sort();
        guards.masked.dedup();
        guards.masked.iter().for_each(|path| *taken.entry(path.clone()).or_default() += 1);
        guards
    }

    /// To be called when everything has ended: what had to be set aside, under its new name.
    pub(super) fn after(mut self) -> Vec<PathBuf> {
        let mut aside = Vec::new();
        let taken = taken();
        for path in std::mem::take(&mut self.watched) {
            // It is there for another command.
            if path.ancestors().any(|above| taken.contains_key(above)) {
                continue;
            }
            // Whatever a link or a file leads to is not what was planted; that is.
            let git = path.ancestors().find(|above| above.ends_with(GIT));
            let leads = git.filter(|git| git.is_symlink() || git.is_file());
            match leads {
                Some(git) => aside.extend(set_aside(git)),
                None if !is_straight(&path) || !exists(&path) || is_placeholder(&path) => {}
                None => aside.extend(disarm(&path)),
            }
        }
        drop(taken);
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
        let mut taken = taken();
        for path in &self.masked {
            let Some(count) = taken.get_mut(path) else { continue };
            *count -= 1;
            if *count == 0 {
                taken.remove(path);
                free(path);
            }
        }
    }
}

fn is_in(path: &Path, folders: &[PathBuf]) -> bool {
    folders.iter().any(|folder| path.starts_with(folder) && path != folder)
}

/// Which file is at a place.
pub(super) fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    fs::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

/// Whether no link is on the way to a place.
fn is_straight(path: &Path) -> bool {
    path.parent().is_some_and(|above| above.canonicalize().is_ok_and(|real| real == above))
}

fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// Whether it was put there by a process that was killed before it could take it away.
fn is_placeholder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
}

/// Takes a name, and tells whether it had to be taken.
pub(super) fn take(path: &Path) -> io::Result<bool> {
    let is_file = path.file_name().is_some_and(|name| FILES.iter().any(|file| name == *file));
    let made = match exists(path) {
        true => return Ok(false),
        false if is_file => make_socket(path),
        false => fs::create_dir(path),
    };
    // Who cannot make it here need not be kept from it.
    let harmless = [
        io::ErrorKind::PermissionDenied,
        io::ErrorKind::ReadOnlyFilesystem,
        io::ErrorKind::NotFound,
        io::ErrorKind::AlreadyExists,
    ];
    match made {
        Err(error) if harmless.contains(&error.kind()) => Ok(false),
        made => made.map(|()| true),
    }
}

fn make_socket(path: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    match mknodat(CWD, path, FileType::Socket, Mode::empty(), 0) {
        Ok(()) => Ok(()),
        // Not every file system has them.
        Err(_) => fs::File::create_new(path).map(drop),
    }
}

/// Gives a name back, if nobody has put anything under it.
pub(super) fn free(path: &Path) {
    if !is_straight(path) {
        return;
    }
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => {
            let _ = fs::remove_dir(path);
        }
        Ok(found) if found.file_type().is_socket() || found.len() == 0 => {
            let _ = fs::remove_file(path);
        }
        _ => {}
    }
}

/// Makes what was planted harmless.
fn disarm(path: &Path) -> Vec<PathBuf> {
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

/// What of a repository's configuration only says what it is, where it comes from and who works in it.
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

/// Renames what was planted, so that nothing is lost: it may have been somebody else.
fn set_aside(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?;
    (0..100).find_map(|count| {
        let mut other = name.to_owned();
        other.push(if count == 0 { ASIDE.to_owned() } else { format!("{ASIDE}-{count}") });
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
    fn a_configuration_keeps_what_runs_nothing() {
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
