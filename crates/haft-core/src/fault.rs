//! A failure that somebody can act on: what went wrong, of which kind, and what to do next. Each dialect
//! presents it in its own form; nothing here knows how.

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
    /// No tool of this name.
    UnknownTool,
    /// The tool exists but is switched off here.
    Disabled,
    /// The same call was made before in this turn and would answer the same.
    Redundant,
    /// A file or another named thing does not exist.
    NotFound,
    /// It exists but is something else: a folder where a file is wanted, a device, a binary.
    WrongKind,
    /// The path is none: empty, with a NUL byte, too long, or a link that leads in circles.
    BadPath,
    /// The path leads out of the workspace.
    Outside,
    /// The path leads out of the folder that the session is focused on.
    OutsideFocus,
    /// A person, a rule or a hook said no.
    Denied,
    /// The operating system said no.
    AccessDenied,
    /// Too large to be handled in one call.
    TooLarge,
    /// The bytes are not text in the encoding that was asked for.
    Encoding,
    /// It took longer than allowed.
    Timeout,
    /// It was stopped on request.
    Cancelled,
    /// The model has not seen the file that it wants to change.
    Unread,
    /// It is not what it was when it was last looked at.
    Conflict,
    /// Something is there already.
    Exists,
    /// The text that was to be changed is not there, or at more places than one.
    NoMatch,
    /// The work itself failed.
    Failed,
    /// The file system failed.
    Io,
    /// A mistake in the program, not in the call.
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
/// The usual errors become faults by `?`, so a tool made of a closure needs no error type of its own:
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
    /// A fault of a kind. The message says what failed and names the value; lower case, no full stop.
    pub fn new(kind: FaultKind, message: impl Into<String>) -> Self {
        Self(Box::new(Parts { kind, message: message.into(), hint: None, path: None, details: Map::new() }))
    }

    /// The work itself failed.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(FaultKind::Failed, message)
    }

    /// The input makes no sense.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(FaultKind::InvalidInput, message)
    }

    /// Says what to do next.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Names the path that the fault is about, as it was asked for. Programs find it as the detail `path`.
    pub fn at(mut self, path: impl fmt::Display) -> Self {
        let path = path.to_string();
        self.0.details.insert("path".to_owned(), Value::String(path.clone()));
        self.0.path = Some(path);
        self
    }

    /// Adds a detail for programs, such as the limit.
    pub fn with(mut self, name: &str, value: impl Serialize) -> Self {
        let value = serde_json::to_value(value).unwrap_or(Value::Null);
        self.0.details.insert(name.to_owned(), value);
        self
    }

    /// What kind of failure it is.
    pub fn kind(&self) -> FaultKind {
        self.0.kind
    }

    /// What failed.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// What to do next.
    pub fn hint_text(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// The path that the fault is about.
    pub fn path(&self) -> Option<&str> {
        self.0.path.as_deref()
    }

    /// The path that does not exist, where that is the failure. An earlier call may be about to create it.
    pub(crate) fn missing(&self) -> Option<&str> {
        self.path().filter(|_| self.kind() == FaultKind::NotFound)
    }

    /// What a program may want to know.
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
        Fault::failed(chain(&*error))
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
        Fault::new(kind, chain(&error))
    }
}

/// Errors of which nothing is known but that the work failed.
macro_rules! work_failed {
    ($($error:ty),* $(,)?) => { $(
        impl From<$error> for Fault {
            fn from(error: $error) -> Self {
                Fault::failed(chain(&error))
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

/// An error with its causes, each once.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
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

/// What kind of fault it is that a path cannot be used, and what to do about it.
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
