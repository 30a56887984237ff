//! Deleting a file, a link or a whole folder. The journal keeps everything that is deleted, so that it can be restored.
//! A link itself is deleted, never its target.

use haft_core::{
    AbsPath, Claims, Context, Effect, Fault, FaultKind, KnownContent, Operation, Preview, Resource,
};
use haft_journal::{self as journal, Depth};
use haft_sandbox::{ChangeErrorKind, Expect, PathErrorKind, State, TreeEntry, names};

use super::place::Entry;

/// Maximum number of paths in a preview.
const MAX_SHOWN: usize = 50;

/// Deletes a file, link or folder.
pub struct Remove {
    /// The entry to delete.
    pub entry: Entry,
    /// Whether a folder is deleted with its content, or only if it is empty.
    pub depth: Depth,
    /// Name of the option that deletes a folder with its content, for the hint.
    pub deeper: &'static str,
    /// Everything to delete, once it was examined.
    examined: Option<Vec<TreeEntry>>,
}

/// Result of a deletion.
#[derive(Debug)]
pub struct Removed {
    /// Number of the change in the journal.
    pub number: u64,
    /// All deleted paths, folders before their content.
    pub paths: Vec<AbsPath>,
    /// Notes of the journal.
    pub notes: Vec<String>,
}

impl Remove {
    /// A deletion that is not checked yet.
    pub fn new(entry: Entry, depth: Depth, deeper: &'static str) -> Self {
        Self { entry, depth, deeper, examined: None }
    }

    /// Runs [`examine_blocking`](Self::examine_blocking) on a blocking thread: it reads the whole tree.
    async fn examine(&self, cx: &Context) -> Result<Vec<TreeEntry>, Fault> {
        let (this, cx) = (Self::new(self.entry.clone(), self.depth, self.deeper), cx.clone());
        haft_core::blocking(move || this.examine_blocking(&cx)).await
    }

    /// Everything that would be deleted, or a fault that says why it cannot be.
    fn examine_blocking(&self, cx: &Context) -> Result<Vec<TreeEntry>, Fault> {
        let Entry { path, named, .. } = &self.entry;
        let fail = |error| super::examine_fault(error, named);
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
            .at(named)),
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
                    .at(named)
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

    fn unavailable(cx: &Context) -> Option<Fault> {
        crate::without_journal(cx)
    }

    fn claims(&self) -> Claims {
        Claims::none().write(Resource::Path(self.entry.path.clone()))
    }

    async fn check(&mut self, cx: &Context) -> Result<Option<Preview>, Fault> {
        let tree = self.examine(cx).await?;
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
        self.examined = Some(tree);
        Ok(Some(Preview::new(diff)))
    }

    async fn run(self, cx: &Context) -> Result<Removed, Fault> {
        let tree = self.examine(cx).await?;
        let Remove { entry, depth, examined, .. } = self;
        // The user approved the preview of `check`: nothing that it did not show is deleted.
        if examined.is_some_and(|examined| examined != tree) {
            return Err(Fault::new(FaultKind::Conflict, format!("`{}` was changed meanwhile", entry.named))
                .hint("nothing was removed; make the call again if it is still meant")
                .at(&entry.named));
        }
        let paths: Vec<AbsPath> =
            tree.iter().map(|one| AbsPath::lexical(&entry.path.as_path().join(&one.below))).collect();
        let expect = match tree.first().map(|root| &root.state) {
            Some(State::File { hash: Some(hash), .. }) => Expect::Content(*hash),
            _ => Expect::Anything,
        };
        let (inside, deleted) = (cx.clone(), paths.clone());
        let recorded = cx
            .commit(move |journal, label| {
                let change = journal::Change::Delete { path: entry.path.clone(), expect, depth };
                let recorded = journal
                    .change(inside.workspace(), change, label)
                    .map_err(|error| super::journal_fault(error, &entry.path, &entry.named, &inside))?;
                for path in deleted {
                    inside.effect(Effect::Changed { path, now: KnownContent::Gone });
                }
                Ok(recorded)
            })
            .await?;
        Ok(Removed { number: recorded.number, paths, notes: recorded.notes })
    }
}
