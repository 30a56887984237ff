//! Where repositories have what makes git run something: behind links and `.git` files, in submodules, and in the folder of
//! hooks that their configuration names. Everything here is read with bounds and never blocks: a project brings these files.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::super::policy::Policy;
use super::place::Roots;
use crate::triggers::{self, GIT};
use crate::{AbsPath, user};

/// Largest file of a repository that is read here.
const MAX_BYTES: u64 = 1 << 20;
/// Most submodules of a repository that are looked at.
const MAX_MODULES: usize = 500;

fn text(path: &Path) -> Option<String> {
    String::from_utf8(user::read_regular(path, MAX_BYTES).ok()??).ok()
}

/// The guarded paths of a policy, with `.git` links and files resolved to the repositories that they point to, and with the
/// hooks that these repositories have elsewhere. Targets that the command could not write anyway are left out: a `.git` file
/// can name any folder.
pub(in super::super) fn resolved(policy: &Policy) -> Vec<PathBuf> {
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
    for folder in &policy.write {
        let elsewhere = hooks_elsewhere(folder).into_iter().chain(of_modules(folder));
        paths.extend(elsewhere.filter(|path| is_below(path, &policy.write)));
    }
    paths.sort();
    paths.dedup();
    paths
}

fn is_below(path: &Path, folders: &[PathBuf]) -> bool {
    folders.iter().any(|folder| path.starts_with(folder) && path != folder)
}

/// The folders that a `.git` link or file points to: the working tree's own, and the repository's, which it shares with other
/// working trees.
fn git_folders(git: &Path) -> Vec<PathBuf> {
    let from = |folder: &Path, text: &str| folder.join(text.trim()).canonicalize().ok();
    let real = match text(git) {
        Some(text) => text.strip_prefix("gitdir:").and_then(|text| from(git.parent()?, text)),
        None => git.is_symlink().then(|| git.canonicalize().ok()).flatten(),
    };
    let Some(real) = real else { return Vec::new() };
    let common = text(&real.join("commondir")).and_then(|text| from(&real, &text));
    [real].into_iter().chain(common).collect()
}

/// The folders of a working tree's hooks that are not where hooks usually are: behind a link, or named by a configuration.
fn hooks_elsewhere(folder: &Path) -> Vec<PathBuf> {
    let git = folder.join(GIT);
    let mut gits = if git.is_dir() { vec![git.clone()] } else { Vec::new() };
    gits.extend(git_folders(&git));
    let linked = gits.iter().map(|git| git.join("hooks")).filter(|hooks| hooks.is_symlink());
    let linked = linked.filter_map(|hooks| hooks.canonicalize().ok());
    let own = gits.iter().flat_map(|git| ["config", "config.worktree"].map(|name| git.join(name)));
    let of_user =
        user::homes().into_iter().flat_map(|home| [home.join(".gitconfig"), home.join(".config/git/config")]);
    let configurations = own.chain(of_user.filter(|_| !gits.is_empty())).filter_map(|path| text(&path));
    let named = configurations.filter_map(|text| {
        let named = folder.join(triggers::hooks_path(&text)?);
        Some(named.canonicalize().unwrap_or_else(|_| AbsPath::lexical(&named).as_path().to_owned()))
    });
    linked.chain(named).collect()
}

/// What makes git run something in the submodules of a working tree, whose repositories are in its own.
fn of_modules(folder: &Path) -> Vec<PathBuf> {
    let mut folders = vec![folder.join(GIT).join("modules")];
    let mut found = Vec::new();
    let mut count = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            count += 1;
            if count > MAX_MODULES || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let module = entry.path();
            // The name of a submodule may have slashes.
            if module.join("HEAD").symlink_metadata().is_ok() {
                found.extend(triggers::IN_REPOSITORY.iter().map(|name| module.join(name)));
                folders.push(module.join("modules"));
            } else {
                folders.push(module);
            }
        }
    }
    found
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
    let back_reference = text(&own.join("gitdir"))?;
    // The path may be relative to the folder that the file is in.
    let is_mutual = own.join(back_reference.trim()).canonicalize().ok()? == git.canonicalize().ok()?;
    if own.parent() != Some(&trees) || !is_mutual {
        return None;
    }
    let others = fs::read_dir(&trees).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    Some(SharedRepository { others: others.filter(|tree| *tree != own).collect(), repository })
}

/// Which paths are hooks, in whatever repository of the workspace.
#[derive(Debug, Default)]
pub(super) struct Hooks {
    /// For folders that were looked at: hooks of the repository that they belong to that are not where hooks usually are.
    elsewhere: HashMap<PathBuf, Vec<PathBuf>>,
}

impl Hooks {
    /// Whether git runs something because of what is at a path.
    pub(super) fn are_at(&mut self, path: &Path, roots: &Roots) -> bool {
        triggers::in_repository(path).is_some()
            || path
                .parent()
                .is_some_and(|folder| self.of(folder, roots).iter().any(|hooks| path.starts_with(hooks)))
    }

    fn of(&mut self, folder: &Path, roots: &Roots) -> Vec<PathBuf> {
        if let Some(known) = self.elsewhere.get(folder) {
            return known.clone();
        }
        // The folder must be one of the workspace: above it, nothing is looked at.
        let found = match (roots.find(&folder.join(GIT)), folder.parent()) {
            (None, _) => Vec::new(),
            (Some(git), _) if git.exists() => hooks_elsewhere(folder),
            (Some(_), Some(above)) => self.of(above, roots),
            (Some(_), None) => Vec::new(),
        };
        self.elsewhere.insert(folder.to_owned(), found.clone());
        found
    }
}
