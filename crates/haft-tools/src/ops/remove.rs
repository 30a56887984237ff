//! Removing a file, a link or a whole folder. Everything that goes is kept in the journal. A link goes
//! itself, never what it leads to.

use haft::journal::{self, Depth};
use haft::{AbsPath, Claims, Context, Effect, Fault, FaultKind, Now, Operation, Preview, Resource};
use haft_sandbox::{ChangeErrorKind, Expect, PathErrorKind, State, TreeEntry, names};

use super::place::Entry;

/// How many paths a preview names.
const MAX_SHOWN: usize = 50;

/// Removes what is at a place.
pub struct Remove {
    /// What goes.
    pub entry: Entry,
    /// What becomes of the content of a folder.
    pub depth: Depth,
    /// How the caller would say that the content goes, too.
    pub deeper: &'static str,
    /// What was there when it was looked at.
    found: Option<Vec<TreeEntry>>,
}

/// What was removed.
#[derive(Debug)]
pub struct Removed {
    /// The number in the journal.
    pub number: u64,
    /// Everything that is gone, folders before what was in them.
    pub paths: Vec<AbsPath>,
    /// What else there is to know.
    pub notes: Vec<String>,
}

impl Remove {
    /// A removal that is still to be checked.
    pub fn new(entry: Entry, depth: Depth, deeper: &'static str) -> Self {
        Self { entry, depth, deeper, found: None }
    }

    /// What would go, or why it cannot. Looks at all of it, however much that is.
    async fn looked_at(&self, cx: &Context) -> Result<Vec<TreeEntry>, Fault> {
        let (this, cx) = (Self::new(self.entry.clone(), self.depth, self.deeper), cx.clone());
        haft::blocking(move || this.look(&cx)).await
    }

    fn look(&self, cx: &Context) -> Result<Vec<TreeEntry>, Fault> {
        let Entry { path, named, .. } = &self.entry;
        let fail = |error| super::unseen(error, named);
        cx.workspace().require_removable(path).map_err(|error| match error.kind {
            ChangeErrorKind::Path(PathErrorKind::NotFound) => self.entry.missing(cx),
            _ => fail(error),
        })?;
        match cx.workspace().state(path).map_err(fail)? {
            State::Missing => Err(self.entry.missing(cx)),
            State::Special(kind) => Err(Fault::new(
                FaultKind::WrongKind,
                format!("`{named}` is a {kind}, which cannot be brought back"),
            )
            .hint("remove it with a command if it must go")
            .with("path", named)),
            State::Directory { .. } => {
                let tree = cx.workspace().tree(path).map_err(fail)?;
                if self.depth == Depth::Empty && tree.len() > 1 {
                    let count = tree.len() - 1;
                    let things = if count == 1 { "1 entry".to_owned() } else { format!("{count} entries") };
                    return Err(Fault::new(
                        FaultKind::WrongKind,
                        format!("`{named}` is a folder with {things}"),
                    )
                    .hint(format!("set {} to remove it with everything in it, if that is meant", self.deeper))
                    .with("path", named)
                    .with("entries", count));
                }
                Ok(tree)
            }
            state => Ok(vec![TreeEntry { below: Default::default(), state }]),
        }
    }
}

impl Operation for Remove {
    type Output = Removed;

    fn possible(cx: &Context) -> bool {
        cx.session().journal().is_some()
    }

    fn claims(&self) -> Claims {
        Claims::none().write(Resource::Path(self.entry.path.clone()))
    }

    async fn check(&mut self, cx: &Context) -> Result<Option<Preview>, Fault> {
        let tree = self.looked_at(cx).await?;
        let line = |entry: &TreeEntry| {
            let path = self.entry.path.as_path().join(&entry.below);
            let shown = cx.workspace().display(&AbsPath::lexical(&path));
            match &entry.state {
                State::File { size, .. } => format!("delete {shown} ({size} bytes)\n"),
                State::Link { target, .. } => format!("delete {shown} (a link to {})\n", names::show(target)),
                State::Directory { .. } => format!("delete {shown}/\n"),
                _ => format!("delete {shown}\n"),
            }
        };
        let mut diff: String = tree.iter().take(MAX_SHOWN).map(line).collect();
        if tree.len() > MAX_SHOWN {
            diff.push_str(&format!("and {} more\n", tree.len() - MAX_SHOWN));
        }
        self.found = Some(tree);
        Ok(Some(Preview::new(diff)))
    }

    async fn run(self, cx: &Context) -> Result<Removed, Fault> {
        let tree = self.looked_at(cx).await?;
        let Remove { entry, depth, found, .. } = self;
        if found.is_some_and(|found| found != tree) {
            return Err(Fault::new(FaultKind::Conflict, format!("`{}` was changed meanwhile", entry.named))
                .hint("nothing was removed; make the call again if it is still meant")
                .with("path", &entry.named));
        }
        let paths: Vec<AbsPath> =
            tree.iter().map(|one| AbsPath::lexical(&entry.path.as_path().join(&one.below))).collect();
        let expect = match tree.first().map(|root| &root.state) {
            Some(State::File { hash: Some(hash), .. }) => Expect::Content(*hash),
            _ => Expect::Anything,
        };
        let (inside, gone) = (cx.clone(), paths.clone());
        let recorded = cx
            .commit(move |journal, label| {
                let change = journal::Change::Delete { path: entry.path.clone(), expect, depth };
                let recorded = journal
                    .change(inside.workspace(), change, label)
                    .map_err(|error| super::named(error, &entry.path, &entry.named, &inside))?;
                for path in gone {
                    inside.effect(Effect::Changed { path, now: Now::Gone });
                }
                Ok(recorded)
            })
            .await?;
        Ok(Removed { number: recorded.number, paths, notes: recorded.notes })
    }
}
