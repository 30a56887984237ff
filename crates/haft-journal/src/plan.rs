//! From changes to steps: looks at what is there, checks it against what is expected, and keeps it.

use std::collections::{HashMap, HashSet};

use haft_sandbox::{
    AbsPath, ChangeError, ChangeErrorKind, Expect, Hash, Kind, PathErrorKind, Stamp, State, Workspace,
};

use super::keep::Keeper;
use super::log::Log;
use super::record::{Attrs, Digest, Kept, Shape, Step, Text};
use super::{Change, Content, Depth, JournalError, Overwrite, Replaced, Result, path_of};

/// What is going to be recorded and performed.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) steps: Vec<Step>,
    pub(super) parents: Vec<Text>,
    /// The content that the record keeps.
    pub(super) kept: Vec<u8>,
    pub(super) at_hand: AtHand,
    pub(super) notes: Vec<String>,
}

/// What need not be read again.
#[derive(Debug, Default)]
pub(super) struct AtHand {
    pub(super) contents: HashMap<Hash, Content>,
    /// The stamps that tell whether a file is what a step replaces, by the number of the step.
    pub(super) stamps: HashMap<usize, Stamp>,
    /// Large content that goes to files of its own.
    pub(super) blobs: HashMap<Hash, Vec<u8>>,
    /// Such files that are there already and are relied upon.
    pub(super) relied: HashSet<Hash>,
}

/// How a move is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moves {
    /// By renaming.
    ByName,
    /// By copying and removing, between file systems.
    ByCopy,
}

/// Refuses changes that concern the same place, or places inside one another.
pub(super) fn require_apart(changes: &[Change]) -> Result<()> {
    let mut places: Vec<&AbsPath> = Vec::new();
    for change in changes {
        match change {
            Change::Write { path, .. }
            | Change::Delete { path, .. }
            | Change::Mode { path, .. }
            | Change::MakeDirectory { path } => places.push(path),
            Change::Move { from, to, .. } | Change::Rewrite { from, to, .. } => places.extend([from, to]),
        }
    }
    // Sorted by their parts, what lies inside a place follows it.
    places.sort_by(|one, other| one.as_path().cmp(other.as_path()));
    match places.windows(2).find(|pair| pair[1].is_within(pair[0])) {
        Some(pair) => Err(JournalError::SamePlace(path_of(pair[1]))),
        None => Ok(()),
    }
}

/// Plans changes.
pub(super) fn plan(log: &mut Log, workspace: &Workspace, changes: &[Change], moves: Moves) -> Result<Plan> {
    let mut planner = Planner::new(log, workspace);
    for change in changes {
        match change {
            Change::Write { path, content, expect, replaced } => {
                planner.write(path, content, expect, replaced.as_ref())?;
            }
            Change::Delete { path, expect, depth } => planner.delete(path, expect, *depth)?,
            Change::Move { from, to, overwrite } => planner.rename(from, to, overwrite, moves)?,
            Change::Rewrite { from, to, content, expect } => planner.rewrite(from, to, content, expect)?,
            Change::Mode { path, mode } => planner.mode(path, *mode)?,
            Change::MakeDirectory { path } => planner.make_directory(path)?,
        }
    }
    planner.finish()
}

pub(super) struct Planner<'a> {
    pub(super) keeper: Keeper<'a>,
    pub(super) workspace: &'a Workspace,
    plan: Plan,
    /// Sets temporary names of different records apart.
    mark: String,
}

impl<'a> Planner<'a> {
    pub(super) fn new(log: &'a mut Log, workspace: &'a Workspace) -> Self {
        let mark = format!("{}-{:x}-{:x}", log.next(), std::process::id(), super::now());
        Self { keeper: Keeper::new(log), workspace, plan: Plan::default(), mark }
    }

    pub(super) fn finish(mut self) -> Result<Plan> {
        for step in &self.plan.steps {
            let filled = match step {
                Step::Set { after: Shape::Missing, .. } | Step::Mode { .. } => continue,
                Step::Set { path, .. } => path,
                Step::Move { to, .. } => to,
            };
            for parent in self.workspace.missing_parents(&filled.place())? {
                let parent = Text::path(&parent);
                if !self.plan.parents.contains(&parent) {
                    self.plan.parents.push(parent);
                }
            }
        }
        self.plan.kept = self.keeper.kept;
        self.plan.at_hand.blobs = self.keeper.blobs;
        self.plan.at_hand.relied = self.keeper.relied;
        self.plan.notes.append(&mut self.keeper.notes);
        Ok(self.plan)
    }

    pub(super) fn push(&mut self, step: Step) {
        self.plan.steps.push(step);
    }

    pub(super) fn set(&mut self, path: &AbsPath, before: Shape, after: Shape) {
        let temp = format!(".haft-{}-{}.tmp", self.mark, self.plan.steps.len());
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
                self.workspace.state_taken_for(path, hash, &replaced.stamp)?
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
            self.plan.at_hand.stamps.insert(self.plan.steps.len(), replaced.stamp);
        }
        let known = match expect {
            Expect::Content(hash) => Some(*hash),
            _ => None,
        };
        if let Some(known) = known
            && found.size() > self.keeper.most()
            && let Some((gone, new)) = self.keeper.keep_both(content, &content.hash(), &known)
        {
            let before = Shape::of(&found).kept_as(gone);
            let after = self.shape(content, new, mode, None);
            self.set(path, before, after);
            return Ok(());
        }
        let before = match (known, replaced) {
            (Some(hash), Some(replaced)) if found.size() <= self.keeper.most() => {
                self.keeper.keep_known(&found, &hash, &replaced.content)?
            }
            _ => self.keeper.keep_found(self.workspace, path, &found)?,
        };
        let after = self.fresh(content, known, mode, None)?;
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
        let before = self.keeper.keep_found(self.workspace, from, &found)?;
        let after = self.fresh(content, None, None, Some(attributes))?;
        self.set(to, Shape::Missing, after);
        self.set(from, before, Shape::Missing);
        Ok(())
    }

    /// The shape of a file that gets this content.
    fn fresh(
        &mut self,
        content: &Content,
        replaced: Option<Hash>,
        mode: Option<u32>,
        attributes: Option<Attrs>,
    ) -> Result<Shape> {
        let hash = content.hash();
        let spliced = replaced.and_then(|replaced| self.keeper.keep_spliced(content, &hash, &replaced));
        let kept = match spliced {
            Some(kept) => kept,
            None if content.len() <= super::keep::KEPT_AFTER => self.keeper.keep(&content.whole(), &hash)?,
            None => Kept::No,
        };
        Ok(self.shape(content, kept, mode, attributes))
    }

    fn shape(
        &mut self,
        content: &Content,
        kept: Kept,
        mode: Option<u32>,
        attributes: Option<Attrs>,
    ) -> Shape {
        let (hash, size) = (content.hash(), content.len());
        self.plan.at_hand.contents.insert(hash, content.clone());
        Shape::File { hash: Some(Digest(hash)), size, kept, mode, attributes }
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
                self.keeper.keep_tree(self.workspace, path, &tree)?
            }
            found => self.keeper.keep_found(self.workspace, path, found)?,
        };
        self.set(path, before, Shape::Missing);
        Ok(())
    }

    fn rename(&mut self, from: &AbsPath, to: &AbsPath, overwrite: &Overwrite, moves: Moves) -> Result<()> {
        self.workspace.require_removable(from)?;
        let moved = self.workspace.state(from)?;
        if matches!(moved, State::Directory { .. }) {
            self.workspace.require_none_guarded_below(from)?;
        }
        let replaced = self.workspace.state(to)?;
        match (&moved, &replaced, overwrite) {
            (State::Missing, ..) => return Err(self.refuse(from, PathErrorKind::NotFound)),
            (State::Special(kind), ..) => return Err(self.refuse(from, ChangeErrorKind::WrongKind(*kind))),
            (_, State::Missing, _) if moves == Moves::ByName => {
                let what = Shape::of(&moved);
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
        // What was moved stays readable at one of the two places, so it need not be kept as well.
        let before = self.keeper.keep_found(self.workspace, to, &replaced)?;
        let (here, there) = match &moved {
            State::Directory { .. } => {
                let tree = self.workspace.tree(from)?;
                for entry in &tree {
                    if let State::Special(kind) = entry.state {
                        let place = AbsPath::lexical(&from.as_path().join(&entry.below));
                        return Err(self.refuse(&place, ChangeErrorKind::Unkeepable(kind)));
                    }
                }
                (copied_tree(&tree, to), copied_tree(&tree, from))
            }
            _ => (copied(&moved, to), copied(&moved, from)),
        };
        self.set(to, before, there);
        self.set(from, here, Shape::Missing);
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
        self.push(Step::Mode { path: Text::path(path), what: Shape::of(&found), before, after });
        Ok(())
    }

    fn make_directory(&mut self, path: &AbsPath) -> Result<()> {
        if self.workspace.state(path)? != State::Missing {
            return Err(self.refuse(path, ChangeErrorKind::Exists));
        }
        self.set(path, Shape::Missing, Shape::Directory { attributes: None });
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

/// The shape of something whose content is at another place.
fn copied(state: &State, elsewhere: &AbsPath) -> Shape {
    let mut shape = Shape::of(state);
    if let Shape::File { kept, .. } = &mut shape {
        *kept = Kept::At(Text::path(elsewhere));
    }
    shape
}

fn copied_tree(tree: &[haft_sandbox::TreeEntry], elsewhere: &AbsPath) -> Shape {
    let entries = tree.iter().map(|entry| {
        let place = AbsPath::lexical(&elsewhere.as_path().join(&entry.below));
        (Text::of(&entry.below), copied(&entry.state, &place))
    });
    Shape::Tree(entries.collect())
}
