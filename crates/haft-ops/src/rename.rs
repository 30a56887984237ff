//! Moving or renaming a file, a link or a folder, also to another file system. A link itself is moved, not its target.
//! The journal does the move; this module checks that it can work.

use haft_core::{Claims, Context, Effect, Fault, FaultKind, Operation, Preview, Resource};
use haft_journal::{self as journal, Overwrite};
use haft_sandbox::{ChangeErrorKind, Expect, PathErrorKind, State};

use super::place::Entry;

/// Moves a file, link or folder to another path.
pub struct Rename {
    /// The entry to move.
    pub from: Entry,
    /// Its new path.
    pub to: Entry,
    /// Whether an existing file at the new path is replaced.
    pub replace: Replacing,
    /// State of the new path, once it was examined.
    target: Option<State>,
}

/// Whether a move may replace an existing file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacing {
    /// The move fails, with this name of the option that allows it in the message.
    Refuse(&'static str),
    /// The file is replaced. Folders are never replaced.
    Allow,
}

/// Result of a move.
#[derive(Debug)]
pub struct Renamed {
    /// Number of the change in the journal.
    pub number: u64,
    /// Notes of the journal.
    pub notes: Vec<String>,
}

impl Rename {
    /// A move that is not checked yet.
    pub fn new(from: Entry, to: Entry, replace: Replacing) -> Self {
        Self { from, to, replace, target: None }
    }

    /// Whether the move would replace a file. Known after `check`.
    pub fn replaces(&self) -> bool {
        self.target.as_ref().is_some_and(|target| *target != State::Missing)
    }

    /// Runs [`examine_blocking`](Self::examine_blocking) on a blocking thread: it may hash large files.
    async fn examine(&self, cx: &Context) -> Result<State, Fault> {
        let (this, cx) = (Self::new(self.from.clone(), self.to.clone(), self.replace), cx.clone());
        haft_core::blocking(move || this.examine_blocking(&cx)).await
    }

    /// The state of the new path, or a fault that says why the move cannot work.
    fn examine_blocking(&self, cx: &Context) -> Result<State, Fault> {
        let Rename { from, to, replace, .. } = self;
        let state = |entry: &Entry| {
            cx.workspace().state(&entry.path).map_err(|error| super::examine_fault(error, &entry.named))
        };
        cx.workspace().require_removable(&from.path).map_err(|mut error| {
            if matches!(error.kind, ChangeErrorKind::Path(PathErrorKind::NotFound)) {
                return from.missing(cx);
            }
            error.path = from.named.clone();
            Fault::from(error)
        })?;
        cx.workspace().require_writable(&to.path).map_err(|mut error| {
            error.path = to.named.clone();
            Fault::from(error)
        })?;
        let moved = state(from)?;
        match &moved {
            State::Missing => return Err(from.missing(cx)),
            State::Special(kind) => {
                return Err(Fault::new(
                    FaultKind::WrongKind,
                    format!("`{}` is a {kind}, which cannot be moved", from.named),
                )
                .at(&from.named));
            }
            _ => {}
        }
        if from.path == to.path {
            return Err(Fault::invalid(format!("`{}` and `{}` are the same place", from.named, to.named)));
        }
        if to.path.is_within(&from.path) {
            return Err(Fault::invalid(format!("`{}` cannot be moved into itself", from.named)));
        }
        let found = state(to)?;
        if to.named.ends_with('/') && !matches!(moved, State::Directory { .. }) && found == State::Missing {
            return Err(Fault::new(FaultKind::NotFound, format!("the folder `{}` does not exist", to.named))
                .hint("name the file that it is to become, such as one in a folder that is made on the way")
                .at(&to.named));
        }
        let there = |what: &str| {
            Fault::new(FaultKind::Exists, format!("`{}` exists already{what}", to.named)).at(&to.named)
        };
        match (&found, &moved, replace) {
            (State::Missing, ..) => {}
            (State::Directory { .. }, ..) => {
                return Err(there(" and is a folder").hint("name the path that it is to have in that folder"));
            }
            (_, State::Directory { .. }, _) => {
                return Err(there(" and is no folder").hint("a folder cannot take the place of a file"));
            }
            (State::Special(kind), ..) => return Err(there(&format!(" and is a {kind}"))),
            (_, _, Replacing::Refuse(how)) => {
                return Err(there("").hint(format!("set {how} to replace it, if that is meant")));
            }
            _ => {}
        }
        Ok(found)
    }
}

impl Operation for Rename {
    type Output = Renamed;

    fn unavailable(cx: &Context) -> Option<Fault> {
        crate::without_journal(cx)
    }

    fn claims(&self) -> Claims {
        Claims::none()
            .write(Resource::Path(self.from.path.clone()))
            .write(Resource::Path(self.to.path.clone()))
    }

    async fn check(&mut self, cx: &Context) -> Result<Option<Preview>, Fault> {
        let target = self.examine(cx).await?;
        let display = |entry: &Entry| cx.workspace().display(&entry.path);
        let mut diff = format!("rename from {}\nrename to {}\n", display(&self.from), display(&self.to));
        if let State::File { size, .. } = &target {
            diff.push_str(&format!("replace {} ({size} bytes)\n", display(&self.to)));
        }
        self.target = Some(target);
        Ok(Some(Preview::new(diff)))
    }

    async fn run(mut self, cx: &Context) -> Result<Renamed, Fault> {
        let target = match self.target.take() {
            Some(target) => target,
            None => self.examine(cx).await?,
        };
        let Rename { from, to, .. } = self;
        let overwrite = match &target {
            State::Missing => Overwrite::Refuse,
            State::File { hash: Some(hash), .. } => Overwrite::Replace(Expect::Content(*hash)),
            _ => Overwrite::Replace(Expect::Anything),
        };
        let inside = cx.clone();
        let recorded = cx
            .commit(move |journal, label| {
                let change =
                    journal::Change::Move { from: from.path.clone(), to: to.path.clone(), overwrite };
                let recorded = journal.change(inside.workspace(), change, label).map_err(|error| {
                    let fault = super::journal_fault(error, &from.path, &from.named, &inside);
                    match fault.kind() {
                        FaultKind::Conflict => fault.hint("somebody else changed it meanwhile; look again"),
                        _ => fault,
                    }
                })?;
                inside.effect(Effect::Moved { from: from.path.clone(), to: to.path.clone() });
                Ok(recorded)
            })
            .await?;
        Ok(Renamed { number: recorded.number, notes: recorded.notes })
    }
}
