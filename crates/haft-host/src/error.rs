//! Errors of settings, state and sessions, worded for the person who set them up.

use std::error::Error;
use std::fmt;

use haft_core::{Fault, message_with_causes};
use haft_rules::BadRule;
use haft_sandbox::PathError;

/// What an error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HostErrorKind {
    /// The workspace cannot be opened, or is too wide to be used without being named.
    Workspace,
    /// Settings or rules are invalid, or cannot be changed.
    Settings,
    /// haft's state cannot be read or written.
    State,
}

/// An error of settings, state or a session.
#[derive(Debug)]
pub struct HostError {
    kind: HostErrorKind,
    message: String,
}

impl HostError {
    /// What the error is about.
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
        Self::new(HostErrorKind::State, message_with_causes(&error))
    }
}

impl From<PathError> for HostError {
    fn from(error: PathError) -> Self {
        Self::new(HostErrorKind::Workspace, message_with_causes(&error))
    }
}

impl From<Fault> for HostError {
    fn from(fault: Fault) -> Self {
        Self::settings(fault.to_string())
    }
}

impl From<BadRule> for HostError {
    fn from(error: BadRule) -> Self {
        Self::settings(message_with_causes(&error))
    }
}

/// Converts errors to [`HostError`], with or without more context.
pub(crate) trait Explain<T> {
    /// Puts a description of what failed before the error's message.
    fn explain(self, kind: HostErrorKind, what: impl FnOnce() -> String) -> Result<T, HostError>;

    /// Keeps the error's own message.
    fn kind(self, kind: HostErrorKind) -> Result<T, HostError>;
}

impl<T, E: Error> Explain<T> for Result<T, E> {
    fn explain(self, kind: HostErrorKind, what: impl FnOnce() -> String) -> Result<T, HostError> {
        self.map_err(|error| HostError {
            kind,
            message: format!("{}: {}", what(), message_with_causes(&error)),
        })
    }

    fn kind(self, kind: HostErrorKind) -> Result<T, HostError> {
        self.map_err(|error| HostError { kind, message: message_with_causes(&error) })
    }
}
