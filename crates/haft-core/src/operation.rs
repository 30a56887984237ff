//! What the engine can do, in its own words. An operation knows no JSON, no tool name and no dialect.

use std::future::Future;

use crate::{Claims, Context, Fault};

/// One thing the engine can do; a value is one request with every path resolved.
pub trait Operation: Send + Sized + 'static {
    /// What it found or did.
    type Output: Send;

    /// Why it cannot be done in this session at all; `None` where it can. Tools for it are then not offered, and a call is
    /// answered with this fault.
    fn unavailable(_cx: &Context) -> Option<Fault> {
        None
    }

    /// Everything that [`run`](Operation::run) may touch.
    fn claims(&self) -> Claims;

    /// Looks, without changing anything, whether the operation can run, and plans it: a failure here means
    /// that nobody is asked for permission. The preview is shown to whoever is asked.
    fn check(&mut self, _cx: &Context) -> impl Future<Output = Result<Option<Preview>, Fault>> + Send {
        std::future::ready(Ok(None))
    }

    /// The preview, where `check` has left it for when somebody is asked: most often nobody is.
    fn preview(&mut self, _cx: &Context) -> Option<Preview> {
        None
    }

    /// Leaves out all parts of the planned change but these, counted from 0 in the preview. Gives what was left out, in
    /// words.
    fn keep_parts(&mut self, _parts: &[usize], _cx: &Context) -> Result<String, Fault> {
        Err(Fault::failed("this change is made as a whole or not at all"))
    }

    /// A number that is the same as long as everything the operation reads is the same. `None` when that
    /// cannot be told cheaply.
    fn fingerprint(&self, _cx: &Context) -> Option<u64> {
        None
    }

    /// Does it.
    fn run(self, cx: &Context) -> impl Future<Output = Result<Self::Output, Fault>> + Send;
}

/// What a change would do, for the person who is asked about it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Preview {
    /// A unified diff, or another text that shows the effect.
    pub diff: String,
    /// Its parts, where one can be agreed to without the others.
    pub parts: Vec<String>,
}

impl Preview {
    /// A change that is made as a whole.
    pub fn new(diff: impl Into<String>) -> Self {
        Self { diff: diff.into(), parts: Vec::new() }
    }

    /// A change whose parts can be agreed to one by one.
    #[must_use]
    pub fn parts(mut self, parts: Vec<String>) -> Self {
        self.parts = parts;
        self
    }
}
