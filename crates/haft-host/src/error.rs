//! Why settings, state or a session could not be had, in a sentence for the person who set them up.

use std::error::Error;
use std::fmt;

use haft_core::Fault;
use haft_rules::BadRule;
use haft_sandbox::PathError;

/// What could not be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HostErrorKind {
    /// The workspace cannot be opened, or is too wide to be meant.
    Workspace,
    /// Settings or rules are wrong, or cannot be changed.
    Settings,
    /// What haft keeps cannot be read or written.
    State,
}

/// Why settings, state or a session could not be had.
#[derive(Debug)]
pub struct HostError {
    kind: HostErrorKind,
    message: String,
}

impl HostError {
    /// What could not be had.
    pub fn kind(&self) -> HostErrorKind {
        self.kind
    }

    pub(crate) fn new(kind: HostErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    pub(crate) fn settings(message: impl Into<String>) -> Self {
        Self::new(HostErrorKind::Settings, message)
    }
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for HostError {}

impl From<std::io::Error> for HostError {
    fn from(error: std::io::Error) -> Self {
        Self::new(HostErrorKind::State, chain(&error))
    }
}

impl From<PathError> for HostError {
    fn from(error: PathError) -> Self {
        Self::new(HostErrorKind::Workspace, chain(&error))
    }
}

impl From<Fault> for HostError {
    fn from(fault: Fault) -> Self {
        Self::settings(fault.to_string())
    }
}

impl From<BadRule> for HostError {
    fn from(error: BadRule) -> Self {
        Self::settings(chain(&error))
    }
}

/// Says of a failure what it kept from being done.
pub(crate) trait Explain<T> {
    fn explain(self, kind: HostErrorKind, what: impl FnOnce() -> String) -> Result<T, HostError>;

    /// Without more words than the failure's own.
    fn kind(self, kind: HostErrorKind) -> Result<T, HostError>;
}

impl<T, E: Error> Explain<T> for Result<T, E> {
    fn explain(self, kind: HostErrorKind, what: impl FnOnce() -> String) -> Result<T, HostError> {
        self.map_err(|error| HostError { kind, message: format!("{}: {}", what(), chain(&error)) })
    }

    fn kind(self, kind: HostErrorKind) -> Result<T, HostError> {
        self.map_err(|error| HostError { kind, message: chain(&error) })
    }
}

/// An error with its causes, each once.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string().trim().to_owned();
    let mut next = error.source();
    while let Some(cause) = next {
        let told = cause.to_string();
        if !text.contains(&told) {
            text = format!("{text}: {told}");
        }
        next = cause.source();
    }
    text
}
