//! Operations: what tools do, independent of how models call them. An operation knows no JSON, no tool name and no
//! dialect.

use std::future::Future;

use crate::trials::TrialOffer;
use crate::{Claims, Context, Fault};

/// Something the engine can do. A value is one request, with every path resolved. A [`Tool`](crate::Tool) presents it to
/// a model.
///
/// ```
/// use haft_core::{AbsPath, Claims, Context, Fault, Operation, Resource};
///
/// /// Counts the entries of a folder.
/// struct CountEntries {
///     folder: AbsPath,
/// }
///
/// impl Operation for CountEntries {
///     type Output = usize;
///
///     fn claims(&self) -> Claims {
///         Claims::none().read(Resource::Path(self.folder.clone()))
///     }
///
///     async fn run(self, _cx: &Context) -> Result<usize, Fault> {
///         let folder = self.folder.as_path().to_owned();
///         haft_core::blocking(move || Ok(std::fs::read_dir(folder)?.count())).await
///     }
/// }
///
/// let operation = CountEntries { folder: AbsPath::lexical("/".as_ref()) };
/// assert!(operation.claims().is_read_only());
/// ```
pub trait Operation: Send + Sized + 'static {
    /// The result.
    type Output: Send;

    /// Why the operation is not available in this session; `None` if it is. Tools for it are then not offered to the
    /// model, and a call of one gets this fault.
    fn unavailable(_cx: &Context) -> Option<Fault> {
        None
    }

    /// Everything that [`run`](Operation::run) may touch.
    fn claims(&self) -> Claims;

    /// The paths that the operation names and that do not exist, if it can run without them. The engine prepares the call
    /// again after unfinished calls that may create them.
    fn missing(&self) -> Vec<String> {
        Vec::new()
    }

    /// Checks, without changing anything, whether the operation can run, and plans it. The engine calls it before it asks
    /// for approval: a call that cannot run is not worth a question. The approver is shown the preview.
    fn check(&mut self, _cx: &Context) -> impl Future<Output = Result<Option<Preview>, Fault>> + Send {
        std::future::ready(Ok(None))
    }

    /// The preview, if [`check`](Operation::check) returned none because it is costly: the engine calls this only when it
    /// really asks for approval.
    fn preview(&mut self, _cx: &Context) -> Option<Preview> {
        None
    }

    /// Whether the person who approves the call can let it reach the network, which it cannot by itself: see
    /// [`Context::may_use_network`].
    fn can_be_given_network(&self, _cx: &Context) -> bool {
        false
    }

    /// Whether the operation should run as a [trial](crate::trials), in which nothing counts before its effects are
    /// approved. `None` if there is nothing to try.
    fn trial(&self, _cx: &Context) -> Option<TrialOffer> {
        None
    }

    /// Why the operation cannot run as a trial here, as far as that is known beforehand.
    fn trial_obstacle(&self, _cx: &Context) -> Option<String> {
        None
    }

    /// Reduces the planned change to these parts, counted from 0 in the preview. Returns a description of what was left
    /// out.
    fn keep_parts(&mut self, _parts: &[usize], _cx: &Context) -> Result<String, Fault> {
        Err(Fault::failed("this change is made as a whole or not at all"))
    }

    /// A hash of everything the operation reads: as long as it does not change, a repeated call would get an equal reply.
    /// `None` if it cannot be computed cheaply; the engine then goes by what other calls have written since.
    fn fingerprint(&self, _cx: &Context) -> Option<u64> {
        None
    }

    /// Runs the operation.
    fn run(self, cx: &Context) -> impl Future<Output = Result<Self::Output, Fault>> + Send;
}

/// A preview of a change, for the person who approves it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Preview {
    /// A unified diff, or another text that shows the effect.
    pub diff: String,
    /// The parts of the change, if each can be approved without the others.
    pub parts: Vec<String>,
    /// What is shown before the diff and never cut, such as deletions.
    pub summary: String,
}

impl Preview {
    /// The preview of a change that can only be approved as a whole.
    pub fn new(diff: impl Into<String>) -> Self {
        Self { diff: diff.into(), parts: Vec::new(), summary: String::new() }
    }

    /// Adds what is shown before the diff and never cut.
    #[must_use]
    pub fn summary(mut self, summary: String) -> Self {
        self.summary = summary;
        self
    }

    /// Adds the parts that can be approved one by one.
    #[must_use]
    pub fn parts(mut self, parts: Vec<String>) -> Self {
        self.parts = parts;
        self
    }
}
