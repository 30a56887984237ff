//! Guarded paths: what makes other programs run something (`crate::triggers`). Existing ones are read-only in the view. Nothing
//! is put in the place of missing ones, which a command could see or copy: what it planted is renamed when it has ended. What
//! haft itself makes meanwhile, with its user's approval, stays.
//!
//! Repositories further down are looked at afterwards, by what the command changed: planted hooks are renamed, changed ones
//! restored. A command may make a repository: `git init` and `git clone` are everyday work. Afterwards its configuration keeps
//! only settings that cannot make git run programs, and its hooks are renamed.
//!
//! All of this happens outside of the sandbox, while other commands may still run in it. So nothing here goes by a path alone:
//! files are found beneath the open folders of the workspace, and no link is followed.

mod config;
mod place;
mod repositories;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, MutexGuard};

use super::policy::Policy;
use super::recorder::{Effect, Effects, Old, OldContent};
use crate::triggers::{self, GIT};

use place::{Place, Roots};
use repositories::Hooks;
pub(super) use repositories::resolved;
pub use repositories::{SharedRepository, shared_repository};

/// Most entries of a new folder that are looked at for repositories.
const MAX_ENTRIES: usize = 50_000;

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
#[derive(Debug)]
pub(super) struct Guards {
    roots: Roots,
    /// Missing paths, to check afterwards.
    watched: Vec<PathBuf>,
    /// Links to restore afterwards, with their targets.
    links: Vec<(PathBuf, PathBuf)>,
}

impl Guards {
    /// Notes which guarded paths are missing and which are links. To be called before a command starts.
    pub(super) fn before(policy: &Policy) -> Self {
        let roots = Roots::open(policy);
        let (mut watched, mut links) = (Vec::new(), Vec::new());
        for path in &policy.guarded {
            let place = roots.find(path);
            match place.as_ref().and_then(Place::link) {
                Some(target) => links.push((path.clone(), target)),
                None if !place.is_some_and(|place| place.exists()) => watched.push(path.clone()),
                None => {}
            }
        }
        made().commands += 1;
        Self { roots, watched, links }
    }

    /// Tells which paths a command must not create. In a repository that it makes itself, it may: what it makes there is
    /// looked at afterwards.
    pub(super) fn deny(&self) -> Arc<dyn Fn(&Path) -> bool + Send + Sync> {
        let is_new_repository = |path: &&PathBuf| {
            let git = path.ancestors().find(|above| above.ends_with(GIT));
            git.is_some_and(|git| !self.roots.find(git).is_some_and(|git| git.exists()))
        };
        let denied: Vec<PathBuf> =
            self.watched.iter().filter(|path| !is_new_repository(path)).cloned().collect();
        Arc::new(move |path| denied.iter().any(|denied| path.starts_with(denied)))
    }

    /// Renames what was planted and restores links. To be called when every process has ended. Returns the new names.
    pub(super) fn restore(&mut self) -> Vec<PathBuf> {
        let mut aside = Vec::new();
        let made = made().paths.clone();
        for path in std::mem::take(&mut self.watched) {
            // Of a `.git` link or file, rename that and not the files it points to.
            let git = path.ancestors().find(|above| above.ends_with(GIT));
            let git = git.and_then(|git| self.roots.find(git)).filter(Place::is_pointer);
            match git {
                Some(git) => aside.extend(git.set_aside()),
                None => aside.extend(self.disarm_but(&path, &made)),
            }
        }
        for (path, target) in std::mem::take(&mut self.links) {
            let Some(place) = self.roots.find(&path) else { continue };
            if place.link().as_ref() != Some(&target) {
                aside.extend(place.set_aside());
                place.make_link(&target);
            }
        }
        aside
    }

    /// Renames hooks that a command planted in repositories further down, and restores those that it changed. Effects that
    /// are gone with that are taken out of the list. Returns the new names.
    pub(super) fn disarm_effects(&self, effects: &mut Effects) -> Vec<PathBuf> {
        let made = made().paths.clone();
        let mut hooks = Hooks::default();
        let mut aside = Vec::new();
        effects.list.retain(|effect| {
            let path = effect.path();
            if made.iter().any(|made| path.starts_with(made)) {
                return true;
            }
            if hooks.are_at(path, &self.roots) {
                let (new_names, is_gone) = self.take_back(effect);
                aside.extend(new_names);
                return !is_gone;
            }
            if let Effect::Set { before: Old::Missing, .. } | Effect::Move { .. } = effect {
                aside.extend(self.disarm_new(path));
            }
            true
        });
        for path in effects.unrecorded.iter().filter(|path| hooks.are_at(path, &self.roots)) {
            aside.extend(disarm(&self.roots, path));
        }
        aside
    }

    /// Takes back an effect on a file that makes git run something. Returns new names, and whether the effect is gone.
    fn take_back(&self, effect: &Effect) -> (Vec<PathBuf>, bool) {
        let path = effect.path();
        let Some(place) = self.roots.find(path) else { return (Vec::new(), false) };
        match effect {
            Effect::Set { before: Old::File { content: OldContent::Kept(kept), attributes, .. }, .. } => {
                if place.exists() && config::is_config(path) && config::is_no_more_harmful(&place, kept) {
                    return (Vec::new(), false);
                }
                let aside = place.set_aside();
                let is_back = place.copy_from(kept, attributes.mode);
                (aside.into_iter().collect(), is_back)
            }
            Effect::Mode { before, .. } => {
                place.set_mode(*before);
                (Vec::new(), true)
            }
            Effect::Set { .. } | Effect::Move { .. } => {
                let aside = disarm(&self.roots, path);
                let is_gone = !aside.is_empty() && !place.exists();
                (aside, is_gone)
            }
        }
    }

    /// Disarms the repositories in a folder that a command made or moved there.
    fn disarm_new(&self, path: &Path) -> Vec<PathBuf> {
        let mut aside = Vec::new();
        let mut folders = vec![path.to_owned()];
        let mut count = 0;
        while let Some(folder) = folders.pop() {
            let Some(place) = self.roots.find(&folder).filter(Place::is_folder) else { continue };
            if folder.ends_with(GIT) {
                let inside = triggers::IN_REPOSITORY.iter().map(|name| folder.join(name));
                aside.extend(inside.flat_map(|path| disarm(&self.roots, &path)));
                continue;
            }
            let inside = place.folders_inside();
            count += inside.len();
            if count < MAX_ENTRIES {
                folders.extend(inside);
            }
        }
        aside
    }

    /// Disarms a planted path, but not what haft made there.
    fn disarm_but(&self, path: &Path, made: &[PathBuf]) -> Vec<PathBuf> {
        let made_below: Vec<PathBuf> = made.iter().filter(|made| made.starts_with(path)).cloned().collect();
        if made_below.is_empty() {
            return disarm(&self.roots, path);
        }
        let Some(place) = self.roots.find(path).filter(Place::is_folder) else { return Vec::new() };
        place.entries().iter().flat_map(|entry| self.disarm_but(entry, &made_below)).collect()
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

/// Makes a path that was planted in a folder harmless.
pub(super) fn disarm_in(folder: &Path, planted: &Path) {
    disarm(&Roots::one(folder), planted);
}

/// Makes a planted path harmless. Returns the new names of what it set aside.
fn disarm(roots: &Roots, path: &Path) -> Vec<PathBuf> {
    let Some(place) = roots.find(path).filter(Place::exists) else { return Vec::new() };
    let is_inert = |path: &Path| {
        let end = path.extension().map(|end| end.to_string_lossy().into_owned());
        end.is_some_and(|end| end == "sample" || end.starts_with(place::ASIDE))
    };
    let inside = triggers::in_repository(path).map(|(_, inside)| inside);
    if inside.is_some_and(|inside| inside == Path::new("hooks")) && place.is_folder() {
        let live = place.entries().into_iter().filter(|hook| !is_inert(hook));
        return live.filter_map(|hook| roots.find(&hook)?.set_aside()).collect();
    }
    if inside.is_some() && is_inert(path) {
        return Vec::new();
    }
    if config::is_config(path) {
        return config::disarm(&place).into_iter().collect();
    }
    place.set_aside().into_iter().collect()
}
