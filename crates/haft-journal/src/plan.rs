//! Planning: turns changes into steps, checks the current state against the expected one, and stores the content that will
//! be replaced. It changes no file of the workspace.

use std::collections::{HashMap, HashSet};

use haft_sandbox::{
    AbsPath, ChangeError, ChangeErrorKind, Expect, Hash, Kind, PathErrorKind, Stamp, State, Workspace,
};

use super::archive::Archive;
use super::log::Log;
use super::record::{Attrs, Digest, Snapshot, Step, Storage, Text};
use super::{Change, Content, Depth, JournalError, Overwrite, Replaced, Result, path_of};

/// Steps to record and perform.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) steps: Vec<Step>,
    pub(super) parents: Vec<Text>,
    /// The content that the record stores inline.
    pub(super) content: Vec<u8>,
    pub(super) in_memory: InMemory,
    pub(super) notes: Vec<String>,
    /// Whether each step builds on the one before.
    pub(super) ordered: bool,
}

/// Content and stamps that need not be read from disk again.
#[derive(Debug, Default)]
pub(super) struct InMemory {
    pub(super) contents: HashMap<Hash, Content>,
    /// Stamps by which to recognise the file that a step replaces, by the index of the step.
    pub(super) stamps: HashMap<usize, Stamp>,
    /// Blobs to write.
    pub(super) blobs: HashMap<Hash, Vec<u8>>,
    /// Existing blobs that the record needs.
    pub(super) required_blobs: HashSet<Hash>,
}

/// How to make a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MoveMethod {
    /// By a rename.
    Rename,
    /// By copying and removing, between file systems.
    Copy,
}

/// Refuses changes of one path, or of paths inside one another.
pub(super) fn require_disjoint(changes: &[Change]) -> Result<()> {
    let mut paths: Vec<&AbsPath> = Vec::new();
    for change in changes {
        match change {
            Change::Write { path, .. }
            | Change::Delete { path, .. }
            | Change::Mode { path, .. }
            | Change::MakeDirectory { path } => paths.push(path),
            Change::Move { from, to, .. } | Change::Rewrite { from, to, .. } => paths.extend([from, to]),
        }
    }
    // Sorted by components, paths inside a directory follow it.
    paths.sort_by(|one, other| one.as_path().cmp(other.as_path()));
    match paths.windows(2).find(|pair| pair[1].is_within(pair[0])) {
        Some(pair) => Err(JournalError::SamePlace(path_of(pair[1]))),
        None => Ok(()),
    }
}

/// Plans changes.
pub(super) fn plan(
    log: &mut Log,
    workspace: &Workspace,
    changes: &[Change],
    method: MoveMethod,
) -> Result<Plan> {
    let mut planner = Planner::new(log, workspace);
    for change in changes {
        match change {
            Change::Write { path, content, expect, replaced } => {
                planner.write(path, content, expect, replaced.as_ref())?;
            }
            Change::Delete { path, expect, depth } => planner.delete(path, expect, *depth)?,
            Change::Move { from, to, overwrite } => planner.rename(from, to, overwrite, method)?,
            Change::Rewrite { from, to, content, expect } => planner.rewrite(from, to, content, expect)?,
            Change::Mode { path, mode } => planner.mode(path, *mode)?,
            Change::MakeDirectory { path } => planner.make_directory(path)?,
        }
    }
    planner.finish()
}

pub(super) struct Planner<'a> {
    pub(super) archive: Archive<'a>,
    pub(super) workspace: &'a Workspace,
    plan: Plan,
    /// Unique part of this record's temporary names.
    temp_id: String,
}

impl<'a> Planner<'a> {
    pub(super) fn new(log: &'a mut Log, workspace: &'a Workspace) -> Self {
        let temp_id = format!("{}-{:x}-{:x}", log.next(), std::process::id(), super::now());
        Self { archive: Archive::new(log), workspace, plan: Plan::default(), temp_id }
    }

    /// Has the steps made one by one, each building on the one before.
    pub(super) fn in_order(&mut self) {
        self.plan.ordered = true;
    }

    pub(super) fn finish(mut self) -> Result<Plan> {
        // Steps that build on each other make the directories that they need.
        let independent = if self.plan.ordered { &[] } else { &*self.plan.steps };
        for step in independent {
            let created = match step {
                Step::Set { after: Snapshot::Missing, .. } | Step::Mode { .. } => continue,
                Step::Set { path, .. } => path,
                Step::Move { to, .. } => to,
            };
            for parent in self.workspace.missing_parents(&created.to_path())? {
                let parent = Text::path(&parent);
                if !self.plan.parents.contains(&parent) {
                    self.plan.parents.push(parent);
                }
            }
        }
        self.plan.content = self.archive.inline;
        self.plan.in_memory.blobs = self.archive.blobs;
        self.plan.in_memory.required_blobs = self.archive.required_blobs;
        self.plan.notes.append(&mut self.archive.notes);
        Ok(self.plan)
    }

    pub(super) fn push(&mut self, step: Step) {
        self.plan.steps.push(step);
    }

    pub(super) fn set(&mut self, path: &AbsPath, before: Snapshot, after: Snapshot) {
        let temp = format!(".haft-{}-{}.tmp", self.temp_id, self.plan.steps.len());
        self.push(Step::Set { path: Text::path(path), temp, before, after });
    }

    pub(super) fn write(
        &mut self,
        path: &AbsPath,
        content: &Content,
        expect: &Expect,
        replaced: Option<&Replaced>,
    ) -> Result<()> {
        let found = match (expect, replaced) {
            (Expect::Content(hash), Some(replaced)) => {
                self.workspace.state_assuming(path, hash, &replaced.stamp)?
            }
            _ => self.workspace.state(path)?,
        };
        if !expect.allows(&found) {
            return Err(self.refuse(path, ChangeErrorKind::Conflict(found.describe())));
        }
        let mode = match &found {
            State::Missing => None,
            State::File { attributes, .. } => Some(attributes.mode & 0o1777),
            State::Link { .. } => return Err(self.refuse(path, PathErrorKind::LinkAppeared)),
            State::Directory { .. } => {
                return Err(self.refuse(path, ChangeErrorKind::WrongKind(Kind::Directory)));
            }
            State::Special(kind) => return Err(self.refuse(path, ChangeErrorKind::WrongKind(*kind))),
        };
        if let Some(replaced) = replaced.filter(|replaced| replaced.settled) {
            self.plan.in_memory.stamps.insert(self.plan.steps.len(), replaced.stamp);
        }
        let known = match expect {
            Expect::Content(hash) => Some(*hash),
            _ => None,
        };
        if let Some(known) = known
            && found.size() > self.archive.max_size()
            && let Some((old, new)) = self.archive.store_both_deltas(content, &content.hash(), &known)
        {
            let before = Snapshot::of(&found).stored_as(old);
            let after = self.new_snapshot(content, new, mode, None);
            self.set(path, before, after);
            return Ok(());
        }
        let before = match (known, replaced) {
            (Some(hash), Some(replaced)) if found.size() <= self.archive.max_size() => {
                self.archive.snapshot_with_content(&found, &hash, &replaced.content)?
            }
            _ => self.archive.snapshot_file(self.workspace, path, &found)?,
        };
        let after = self.new_file(content, known, mode, None)?;
        self.set(path, before, after);
        Ok(())
    }

    fn rewrite(&mut self, from: &AbsPath, to: &AbsPath, content: &Content, expect: &Expect) -> Result<()> {
        self.workspace.require_removable(from)?;
        let found = self.expected(from, expect)?;
        let State::File { attributes, .. } = &found else {
            return Err(self.refuse(from, ChangeErrorKind::WrongKind(Kind::Directory)));
        };
        if self.workspace.state(to)? != State::Missing {
            return Err(self.refuse(to, ChangeErrorKind::Exists));
        }
        let now = super::now();
        let modified = (i64::try_from(now / 1000).unwrap_or(i64::MAX), (now % 1000) as u32 * 1_000_000);
        let attributes = Attrs::from(&haft_sandbox::Attributes { modified, ..attributes.clone() });
        let before = self.archive.snapshot_file(self.workspace, from, &found)?;
        let after = self.new_file(content, None, None, Some(attributes))?;
        self.set(to, Snapshot::Missing, after);
        self.set(from, before, Snapshot::Missing);
        Ok(())
    }

    /// A snapshot of a file with new content, which is stored if it is small or a small delta.
    fn new_file(
        &mut self,
        content: &Content,
        replaced: Option<Hash>,
        mode: Option<u32>,
        attributes: Option<Attrs>,
    ) -> Result<Snapshot> {
        let hash = content.hash();
        let delta = replaced.and_then(|replaced| self.archive.store_delta(content, &hash, &replaced));
        let storage = match delta {
            Some(storage) => storage,
            None if content.len() <= super::archive::MAX_NEW_CONTENT => {
                self.archive.store(&content.whole(), &hash)?
            }
            None => Storage::None,
        };
        Ok(self.new_snapshot(content, storage, mode, attributes))
    }

    fn new_snapshot(
        &mut self,
        content: &Content,
        storage: Storage,
        mode: Option<u32>,
        attributes: Option<Attrs>,
    ) -> Snapshot {
        let (hash, size) = (content.hash(), content.len());
        self.plan.in_memory.contents.insert(hash, content.clone());
        Snapshot::File { hash: Some(Digest(hash)), size, storage, mode, attributes, linked: None }
    }

    fn delete(&mut self, path: &AbsPath, expect: &Expect, depth: Depth) -> Result<()> {
        self.workspace.require_removable(path)?;
        let found = self.expected(path, expect)?;
        let before = match &found {
            State::Missing => return Err(self.refuse(path, PathErrorKind::NotFound)),
            State::Special(kind) => return Err(self.refuse(path, ChangeErrorKind::WrongKind(*kind))),
            State::Directory { .. } if depth == Depth::Tree => {
                self.workspace.require_none_guarded_below(path)?;
                let tree = self.workspace.tree(path)?;
                self.archive.snapshot_tree(self.workspace, path, &tree)?
            }
            found => self.archive.snapshot_file(self.workspace, path, found)?,
        };
        self.set(path, before, Snapshot::Missing);
        Ok(())
    }

    fn rename(
        &mut self,
        from: &AbsPath,
        to: &AbsPath,
        overwrite: &Overwrite,
        method: MoveMethod,
    ) -> Result<()> {
        self.workspace.require_removable(from)?;
        let moved = self.workspace.state(from)?;
        if matches!(moved, State::Directory { .. }) {
            self.workspace.require_none_guarded_below(from)?;
        }
        let replaced = self.workspace.state(to)?;
        match (&moved, &replaced, overwrite) {
            (State::Missing, ..) => return Err(self.refuse(from, PathErrorKind::NotFound)),
            (State::Special(kind), ..) => return Err(self.refuse(from, ChangeErrorKind::WrongKind(*kind))),
            (_, State::Missing, _) if method == MoveMethod::Rename => {
                let what = Snapshot::of(&moved);
                self.push(Step::Move { from: Text::path(from), to: Text::path(to), what });
                return Ok(());
            }
            (_, State::Missing, _) => {}
            (State::File { .. } | State::Link { .. }, found, Overwrite::Replace(expect))
                if matches!(found, State::File { .. } | State::Link { .. }) =>
            {
                if !expect.allows(found) {
                    return Err(self.refuse(to, ChangeErrorKind::Conflict(found.describe())));
                }
            }
            _ => return Err(self.refuse(to, ChangeErrorKind::Exists)),
        }
        // The moved content stays readable at one of the two paths, so it need not be stored as well.
        let before = self.archive.snapshot_file(self.workspace, to, &replaced)?;
        let (source, target) = match &moved {
            State::Directory { .. } => {
                let tree = self.workspace.tree(from)?;
                for entry in &tree {
                    if let State::Special(kind) = entry.state {
                        let place = AbsPath::lexical(&from.as_path().join(&entry.below));
                        return Err(self.refuse(&place, ChangeErrorKind::Unkeepable(kind)));
                    }
                }
                (snapshot_tree_elsewhere(&tree, to), snapshot_tree_elsewhere(&tree, from))
            }
            _ => (snapshot_elsewhere(&moved, to), snapshot_elsewhere(&moved, from)),
        };
        self.set(to, before, target);
        self.set(from, source, Snapshot::Missing);
        Ok(())
    }

    fn mode(&mut self, path: &AbsPath, mode: u32) -> Result<()> {
        let found = self.workspace.state(path)?;
        let before = match (&found, found.attributes()) {
            (State::Missing, _) => return Err(self.refuse(path, PathErrorKind::NotFound)),
            (State::File { .. } | State::Directory { .. }, Some(attributes)) => attributes.mode,
            (State::Link { .. }, _) => return Err(self.refuse(path, PathErrorKind::LinkAppeared)),
            _ => return Err(self.refuse(path, ChangeErrorKind::WrongKind(Kind::Special("special file")))),
        };
        let after = before & 0o7000 | mode & 0o777;
        self.push(Step::Mode { path: Text::path(path), what: Snapshot::of(&found), before, after });
        Ok(())
    }

    fn make_directory(&mut self, path: &AbsPath) -> Result<()> {
        if self.workspace.state(path)? != State::Missing {
            return Err(self.refuse(path, ChangeErrorKind::Exists));
        }
        self.set(path, Snapshot::Missing, Snapshot::Directory { attributes: None });
        Ok(())
    }

    fn expected(&self, path: &AbsPath, expect: &Expect) -> Result<State> {
        let found = self.workspace.state(path)?;
        match expect.allows(&found) {
            true => Ok(found),
            false => Err(self.refuse(path, ChangeErrorKind::Conflict(found.describe()))),
        }
    }

    fn refuse(&self, path: &AbsPath, kind: impl Into<ChangeErrorKind>) -> JournalError {
        ChangeError::new(self.workspace.display(path), kind).into()
    }
}

/// A snapshot whose content is at another path.
fn snapshot_elsewhere(state: &State, elsewhere: &AbsPath) -> Snapshot {
    let mut snapshot = Snapshot::of(state);
    if let Snapshot::File { storage, .. } = &mut snapshot {
        *storage = Storage::Elsewhere(Text::path(elsewhere));
    }
    snapshot
}

fn snapshot_tree_elsewhere(tree: &[haft_sandbox::TreeEntry], elsewhere: &AbsPath) -> Snapshot {
    let entries = tree.iter().map(|entry| {
        let place = AbsPath::lexical(&elsewhere.as_path().join(&entry.below));
        (Text::of(&entry.below), snapshot_elsewhere(&entry.state, &place))
    });
    Snapshot::Tree(entries.collect())
}
