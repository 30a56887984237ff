//! Faults: the one error type of the engine. A fault has a kind, a message, a hint and details, so that a model or a
//! person can act on it. Each dialect presents faults in its own form; nothing here knows how.

use std::fmt;

use haft_sandbox::{ChangeError, ChangeErrorKind, Kind, PathError, PathErrorKind};
use serde::Serialize;
use serde_json::{Map, Value};

use haft_journal::JournalError;

/// What kind of failure it is. Dialects map these onto their own error types and codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FaultKind {
    /// The input does not fit the tool's schema, or asks for something that makes no sense.
    InvalidInput,
    /// There is no tool of this name.
    UnknownTool,
    /// The tool exists but is switched off here.
    Disabled,
    /// The call repeats an earlier one of this turn, whose reply still holds.
    Redundant,
    /// A file or another named thing does not exist.
    NotFound,
    /// A file or another named thing is of the wrong kind: a folder instead of a file, a device, a binary.
    WrongKind,
    /// The path is invalid: empty, with a NUL byte, too long, or a circular link.
    BadPath,
    /// The path leads out of the workspace.
    Outside,
    /// The path leads out of the folder that the session is focused on.
    OutsideFocus,
    /// A person, a rule or a hook denied the call.
    Denied,
    /// The operating system denied access.
    AccessDenied,
    /// Too large for one call.
    TooLarge,
    /// The bytes are not text in the encoding that was asked for.
    Encoding,
    /// The call took longer than allowed.
    Timeout,
    /// The call was cancelled.
    Cancelled,
    /// The model has not seen the file that it wants to change.
    Unread,
    /// A file or the session's state has changed since it was last read.
    Conflict,
    /// A file of that name exists already.
    Exists,
    /// The text to change does not occur, or occurs more than once.
    NoMatch,
    /// The work itself failed.
    Failed,
    /// The file system failed.
    Io,
    /// A bug in haft or in a tool, not in the call.
    Internal,
}

impl FaultKind {
    /// The kind as one lower-case word.
    pub fn name(self) -> &'static str {
        match self {
            FaultKind::InvalidInput => "invalid_input",
            FaultKind::UnknownTool => "unknown_tool",
            FaultKind::Disabled => "disabled",
            FaultKind::Redundant => "redundant",
            FaultKind::NotFound => "not_found",
            FaultKind::WrongKind => "wrong_kind",
            FaultKind::BadPath => "bad_path",
            FaultKind::Outside => "outside",
            FaultKind::OutsideFocus => "outside_focus",
            FaultKind::Denied => "denied",
            FaultKind::AccessDenied => "access_denied",
            FaultKind::TooLarge => "too_large",
            FaultKind::Encoding => "encoding",
            FaultKind::Timeout => "timeout",
            FaultKind::Cancelled => "cancelled",
            FaultKind::Unread => "unread",
            FaultKind::Conflict => "conflict",
            FaultKind::Exists => "exists",
            FaultKind::NoMatch => "no_match",
            FaultKind::Failed => "failed",
            FaultKind::Io => "io",
            FaultKind::Internal => "internal",
        }
    }
}

/// A failure with a kind, a message, a hint and details.
///
/// Common error types convert into faults by `?`, so a tool made of a closure needs no error type of its own:
///
/// ```
/// use haft_core::{Fault, FaultKind};
///
/// fn sum(numbers: &str) -> Result<i64, Fault> {
///     let mut sum = 0_i64;
///     for number in numbers.split_whitespace() {
///         sum += number.parse::<i64>()?;
///     }
///     if sum < 0 {
///         return Err(Fault::invalid("the sum is negative").hint("give larger numbers"));
///     }
///     Ok(sum)
/// }
/// assert_eq!(sum("1 2"), Ok(3));
/// assert_eq!(sum("1 x").unwrap_err().kind(), FaultKind::Failed);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Fault(Box<Parts>);

#[derive(Clone, Debug, PartialEq)]
struct Parts {
    kind: FaultKind,
    message: String,
    hint: Option<String>,
    path: Option<String>,
    details: Map<String, Value>,
}

impl Fault {
    /// A fault of a kind. The message says what failed and names the value, in lower case and without a full stop.
    pub fn new(kind: FaultKind, message: impl Into<String>) -> Self {
        Self(Box::new(Parts { kind, message: message.into(), hint: None, path: None, details: Map::new() }))
    }

    /// A fault of the kind [`FaultKind::Failed`].
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(FaultKind::Failed, message)
    }

    /// A fault of the kind [`FaultKind::InvalidInput`].
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(FaultKind::InvalidInput, message)
    }

    /// Sets the hint: what to do next.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Sets the path that the fault is about, as the call named it. It is also the detail `path`.
    pub fn at(mut self, path: impl fmt::Display) -> Self {
        let path = path.to_string();
        self.0.details.insert("path".to_owned(), Value::String(path.clone()));
        self.0.path = Some(path);
        self
    }

    /// Adds a detail for programs, such as a limit.
    pub fn with(mut self, name: &str, value: impl Serialize) -> Self {
        let value = serde_json::to_value(value).unwrap_or(Value::Null);
        self.0.details.insert(name.to_owned(), value);
        self
    }

    /// The kind of failure.
    pub fn kind(&self) -> FaultKind {
        self.0.kind
    }

    /// The message: what failed.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The hint: what to do next.
    pub fn hint_text(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// The path that the fault is about.
    pub fn path(&self) -> Option<&str> {
        self.0.path.as_deref()
    }

    /// The path that does not exist, if the fault is of that kind. An earlier call may be about to create it.
    pub fn missing(&self) -> Option<&str> {
        self.path().filter(|_| self.kind() == FaultKind::NotFound)
    }

    /// The details for programs.
    pub fn details(&self) -> &Map<String, Value> {
        &self.0.details
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        match &self.0.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Fault {}

impl From<String> for Fault {
    fn from(message: String) -> Self {
        Fault::failed(message)
    }
}

impl From<&str> for Fault {
    fn from(message: &str) -> Self {
        Fault::failed(message)
    }
}

impl From<Box<dyn std::error::Error + Send + Sync>> for Fault {
    fn from(error: Box<dyn std::error::Error + Send + Sync>) -> Self {
        Fault::failed(message_with_causes(&*error))
    }
}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Self {
        use std::io::ErrorKind;
        let kind = match error.kind() {
            ErrorKind::NotFound => FaultKind::NotFound,
            ErrorKind::PermissionDenied => FaultKind::AccessDenied,
            ErrorKind::AlreadyExists => FaultKind::Exists,
            ErrorKind::TimedOut => FaultKind::Timeout,
            _ => FaultKind::Io,
        };
        Fault::new(kind, message_with_causes(&error))
    }
}

/// Converts errors into faults of the kind [`FaultKind::Failed`].
macro_rules! work_failed {
    ($($error:ty),* $(,)?) => { $(
        impl From<$error> for Fault {
            fn from(error: $error) -> Self {
                Fault::failed(message_with_causes(&error))
            }
        }
    )* };
}

work_failed!(
    serde_json::Error,
    std::fmt::Error,
    std::num::ParseFloatError,
    std::num::ParseIntError,
    std::str::ParseBoolError,
    std::str::Utf8Error,
    std::string::FromUtf8Error,
    std::time::SystemTimeError,
    tokio::task::JoinError,
    tokio::time::error::Elapsed,
);

/// The message of an error with the messages of its causes. A cause that the text already contains is skipped.
pub fn message_with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string().trim().to_owned();
    let mut next = error.source();
    while let Some(cause) = next {
        let message = cause.to_string();
        if !text.contains(&message) {
            text = format!("{text}: {message}");
        }
        next = cause.source();
    }
    text
}

impl From<PathError> for Fault {
    fn from(error: PathError) -> Self {
        let (kind, hint) = path_kind(&error.kind);
        let fault = Fault::new(kind, error.to_string()).at(&error.path);
        match hint {
            Some(hint) => fault.hint(hint),
            None => fault,
        }
    }
}

impl From<ChangeError> for Fault {
    fn from(error: ChangeError) -> Self {
        let hint = |hint: &str| Some(hint.to_owned());
        let (kind, hint) = match &error.kind {
            ChangeErrorKind::Path(kind) => path_kind(kind),
            ChangeErrorKind::ReadOnlyFolder | ChangeErrorKind::Denied(_) => (FaultKind::AccessDenied, None),
            ChangeErrorKind::Protected => (FaultKind::AccessDenied, None),
            ChangeErrorKind::Guarded => (FaultKind::AccessDenied, hint("ask the user to change it")),
            ChangeErrorKind::Conflict(_) => {
                (FaultKind::Conflict, hint("somebody else changed it meanwhile: read it again"))
            }
            ChangeErrorKind::Unkeepable(_) => {
                (FaultKind::WrongKind, hint("remove it with a command first, or leave its folder"))
            }
            ChangeErrorKind::Exists => (FaultKind::Exists, None),
            ChangeErrorKind::NotEmpty | ChangeErrorKind::WrongKind(_) => (FaultKind::WrongKind, None),
            ChangeErrorKind::NoSpace | ChangeErrorKind::Quota => {
                (FaultKind::Io, hint("free some space, or have the user do it; the old content is in place"))
            }
            _ => (FaultKind::Io, None),
        };
        let fault = Fault::new(kind, error.to_string()).at(&error.path);
        match hint {
            Some(hint) => fault.hint(hint),
            None => fault,
        }
    }
}

impl From<JournalError> for Fault {
    fn from(error: JournalError) -> Self {
        let kind = match error {
            JournalError::Change(error) => return error.into(),
            JournalError::Conflict(_) => FaultKind::Conflict,
            JournalError::Unknown(..) => FaultKind::NotFound,
            JournalError::SamePlace(_) | JournalError::NothingToDo { .. } => FaultKind::InvalidInput,
            JournalError::NotKept { .. } => FaultKind::TooLarge,
            JournalError::Unusable(_) | JournalError::Busy => FaultKind::Io,
            JournalError::HalfDone { .. } => FaultKind::Failed,
        };
        Fault::new(kind, error.to_string())
    }
}

/// The kind and the hint of a fault about a path.
fn path_kind(kind: &PathErrorKind) -> (FaultKind, Option<String>) {
    match kind {
        PathErrorKind::Outside => (
            FaultKind::Outside,
            Some("stay inside the workspace, or have the user add the folder with `--add-dir`".to_owned()),
        ),
        PathErrorKind::OutsideFocus(focus) => (
            FaultKind::OutsideFocus,
            Some(format!("this session is focused on `{focus}`: use paths below it")),
        ),
        PathErrorKind::NotFound | PathErrorKind::NotADirectory => (FaultKind::NotFound, None),
        PathErrorKind::NotAFile(Kind::Directory) => {
            (FaultKind::WrongKind, Some("name a file in it instead".to_owned()))
        }
        PathErrorKind::NotAFile(_) => (FaultKind::WrongKind, None),
        PathErrorKind::AccessDenied => (FaultKind::AccessDenied, None),
        PathErrorKind::Empty | PathErrorKind::NulByte | PathErrorKind::TooLong | PathErrorKind::Loop => {
            (FaultKind::BadPath, None)
        }
        _ => (FaultKind::Io, None),
    }
}
