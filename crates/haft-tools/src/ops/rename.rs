//! Giving a file, a link or a folder another name, on another file system too. A link moves itself, not
//! what it leads to.

use haft::journal::{self, Overwrite};
use haft::{Claims, Context, Effect, Fault, FaultKind, Operation, Preview, Resource};
use haft_sandbox::{ChangeErrorKind, Expect, PathErrorKind, State};

use super::place::Entry;

/// Moves what is at a place to another.
pub struct Rename {
    /// What is moved.
    pub from: Entry,
    /// Where to.
    pub to: Entry,
    /// What becomes of a file that is there.
    pub replace: Replacing,
    /// What was there when it was looked at.
    found: Option<State>,
}

/// What becomes of a file in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacing {
    /// It stays, and the move fails; the message says how it would be replaced.
    Refuse(&'static str),
    /// It is replaced. Folders are never replaced.
    Allow,
}

/// What was moved.
#[derive(Debug)]
pub struct Renamed {
    /// The number in the journal.
    pub number: u64,
    /// What else there is to know.
    pub notes: Vec<String>,
}

impl Rename {
    /// A move that is still to be checked.
    pub fn new(from: Entry, to: Entry, replace: Replacing) -> Self {
        Self { from, to, replace, found: None }
    }

    /// Whether a file would be replaced. Known once the move was checked.
    pub fn replaces(&self) -> bool {
        self.found.as_ref().is_some_and(|found| *found != State::Missing)
    }

    /// What is at the new place, or why nothing can be moved there.
    async fn looked_at(&self, cx: &Context) -> Result<State, Fault> {
        let (this, cx) = (Self::new(self.from.clone(), self.to.clone(), self.replace), cx.clone());
        haft::blocking(move || this.look(&cx)).await
    }

    fn look(&self, cx: &Context) -> Result<State, Fault> {
        let Rename { from, to, replace, .. } = self;
        let state = |entry: &Entry| {
            cx.workspace().state(&entry.path).map_err(|error| super::unseen(error, &entry.named))
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
                .with("path", &from.named));
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
                .with("path", &to.named));
        }
        let there = |what: &str| {
            Fault::new(FaultKind::Exists, format!("`{}` exists already{what}", to.named))
                .with("path", &to.named)
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

    fn possible(cx: &Context) -> bool {
        cx.session().journal().is_some()
    }

    fn claims(&self) -> Claims {
        Claims::none()
            .write(Resource::Path(self.from.path.clone()))
            .write(Resource::Path(self.to.path.clone()))
    }

    async fn check(&mut self, cx: &Context) -> Result<Option<Preview>, Fault> {
        let found = self.looked_at(cx).await?;
        let display = |entry: &Entry| cx.workspace().display(&entry.path);
        let mut diff = format!("rename from {}\nrename to {}\n", display(&self.from), display(&self.to));
        if let State::File { size, .. } = &found {
            diff.push_str(&format!("replace {} ({size} bytes)\n", display(&self.to)));
        }
        self.found = Some(found);
        Ok(Some(Preview::new(diff)))
    }

    async fn run(mut self, cx: &Context) -> Result<Renamed, Fault> {
        let found = match self.found.take() {
            Some(found) => found,
            None => self.looked_at(cx).await?,
        };
        let Rename { from, to, .. } = self;
        let overwrite = match &found {
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
                    let fault = super::named(error, &from.path, &from.named, &inside);
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
