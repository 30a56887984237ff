//! The order of effects. Taken back from the last to the first, each finds what it needs: names are free before something
//! moves to them, directories exist before something is put into them, and one that becomes read-only does so last. It knows
//! nothing of how the effects were found.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Bound;
use std::path::{Path, PathBuf};

use super::effects::{Effect, New, Old};
use super::model::Id;
use crate::TempName;

/// A file or directory that has another path than before.
#[derive(Clone, Debug)]
pub(super) struct Moved {
    pub(super) from: PathBuf,
    pub(super) to: PathBuf,
    /// Whether the directory that it was in is where it was.
    pub(super) is_from_still: bool,
    /// Whether the directory that it is in was there before, at the same path.
    pub(super) is_to_still: bool,
}

/// Effects of each kind, in no order. Paths are those before the command, but for what was created.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) roots: Vec<PathBuf>,
    pub(super) moved: Vec<Moved>,
    /// Paths that are new, and what is below them and was moved there.
    pub(super) created: Vec<(PathBuf, Vec<PathBuf>)>,
    pub(super) deleted: Vec<(PathBuf, Old)>,
    /// Files and links with another content, and where they are now.
    pub(super) set: Vec<(PathBuf, Old, PathBuf)>,
    /// Files that had several names and another content or fewer names now, and where each name is now, unless it went.
    pub(super) linked: Vec<(Id, PathBuf, Old, Option<PathBuf>)>,
    /// A name of such a file that has it unchanged.
    pub(super) untouched: HashMap<Id, PathBuf>,
    pub(super) modes: Vec<(Effect, bool)>,
}

impl Parts {
    pub(super) fn mode(&mut self, path: &Path, at: &Path, before: u32, after: u32, is_dir: bool) {
        let (path, at) = (path.to_owned(), at.to_owned());
        self.modes.push((Effect::Mode { path, at, before, after }, is_dir));
    }

    /// All effects in forward order.
    pub(super) fn ordered(self) -> Vec<Effect> {
        let mut back = self.backward();
        back.reverse();
        back
    }

    /// The effects in the order in which they are taken back.
    fn backward(mut self) -> Vec<Effect> {
        let mut back = Vec::new();
        // Directories that get their rights back come first, while they are where they are now.
        let (mut wide, mut narrow) = (Vec::new(), Vec::new());
        for (effect, is_dir) in std::mem::take(&mut self.modes) {
            match effect {
                Effect::Mode { at, before, after, .. } if is_dir && before & 0o300 == 0o300 => {
                    wide.push(Effect::Mode { path: at.clone(), at, before, after });
                }
                effect => narrow.push(effect),
            }
        }
        wide.sort_by(|one, other| one.path().cmp(other.path()));
        back.append(&mut wide);
        let Moves { early, direct, aside } = Moves::sort(std::mem::take(&mut self.moved), &self.created);
        let as_effect = |Moved { from, to, .. }: Moved| Effect::Move { from, to };
        back.extend(early.into_iter().map(as_effect));
        // What is new goes, and what must wait for a name moves aside: those inside others first.
        let mut leaving: Vec<(PathBuf, Effect)> = Vec::new();
        let mut returning: Vec<(PathBuf, Effect)> = Vec::new();
        for (path, except) in self.created {
            let after = New::At { path: path.clone(), except };
            leaving.push((path.clone(), Effect::Set { path, before: Old::Missing, after }));
        }
        let id = crate::random_id();
        for (number, Moved { from, to, .. }) in aside.into_iter().enumerate() {
            let root = self
                .roots
                .iter()
                .filter(|root| from.starts_with(root))
                .max_by_key(|root| root.as_os_str().len());
            let (Some(root), Some(name)) = (root, TempName::new(&format!("{id}-{number}"))) else { continue };
            let place = root.join(name.as_str());
            leaving.push((to.clone(), Effect::Move { from: place.clone(), to }));
            returning.push((from.clone(), Effect::Move { from, to: place }));
        }
        leaving.sort_by(|one, other| other.0.cmp(&one.0));
        back.extend(leaving.into_iter().map(|(_, effect)| effect));
        back.extend(direct.into_iter().map(as_effect));
        for (path, before) in self.deleted {
            returning.push((path.clone(), Effect::Set { path, before, after: New::Missing }));
        }
        returning.sort_by(|one, other| one.0.cmp(&other.0));
        back.extend(returning.into_iter().map(|(_, effect)| effect));
        self.set.sort_by(|one, other| one.0.cmp(&other.0));
        for (path, before, at) in self.set {
            back.push(Effect::Set { path, before, after: New::At { path: at, except: Vec::new() } });
        }
        // Of files with several names, one is restored and the others are linked to it.
        let mut leaders: BTreeMap<Id, PathBuf> = self.untouched.into_iter().collect();
        self.linked.sort_by(|one, other| one.1.cmp(&other.1));
        for (id, path, mut before, at) in self.linked {
            if let Old::File { linked, .. } = &mut before {
                *linked = leaders.get(&id).cloned();
            }
            leaders.entry(id).or_insert_with(|| path.clone());
            let after = at.map_or(New::Missing, |path| New::At { path, except: Vec::new() });
            back.push(Effect::Set { path, before, after });
        }
        narrow.sort_by_key(|effect| Reverse(effect.path().to_owned()));
        back.append(&mut narrow);
        back
    }
}

/// Moves in the order in which they are taken back.
#[derive(Debug, Default)]
struct Moves {
    /// Those that can go back before all else.
    early: Vec<Moved>,
    /// Those that can go back when what is new is gone.
    direct: Vec<Moved>,
    /// Those that must be moved aside first.
    aside: Vec<Moved>,
}

impl Moves {
    fn sort(mut moved: Vec<Moved>, created: &[(PathBuf, Vec<PathBuf>)]) -> Self {
        let new: HashSet<&Path> = created.iter().map(|(path, _)| path.as_path()).collect();
        let is_below_new = |path: &Path| path.ancestors().skip(1).any(|above| new.contains(above));
        let mut sorted = Self::default();
        moved.sort_by(|one, other| one.from.cmp(&other.from));
        // Whatever else is below a directory has to be found at its present path. In this order it follows the directory.
        let all: BTreeSet<&Path> =
            new.iter().copied().chain(moved.iter().map(|moved| moved.to.as_path())).collect();
        let is_alone = |moved: &Moved| {
            let next = all.range::<Path, _>((Bound::Excluded(moved.to.as_path()), Bound::Unbounded)).next();
            next.is_none_or(|next| !next.starts_with(&moved.to))
        };
        let mut rest = moved.clone();
        take_free(&mut rest, &mut sorted.early, |one| {
            one.is_from_still && !new.contains(one.from.as_path()) && is_alone(one)
        });
        take_free(&mut rest, &mut sorted.direct, |one| {
            one.is_from_still && one.is_to_still && !is_below_new(&one.to)
        });
        sorted.aside = rest;
        sorted
    }
}

/// Takes moves that fit and whose old path no other one occupies, until there are none.
fn take_free(rest: &mut Vec<Moved>, taken: &mut Vec<Moved>, fits: impl Fn(&Moved) -> bool) {
    loop {
        let occupied: HashSet<PathBuf> = rest.iter().map(|moved| moved.to.clone()).collect();
        let (free, blocked): (Vec<Moved>, Vec<Moved>) = std::mem::take(rest)
            .into_iter()
            .partition(|moved| !occupied.contains(&moved.from) && fits(moved));
        *rest = blocked;
        if free.is_empty() {
            return;
        }
        taken.extend(free);
    }
}
