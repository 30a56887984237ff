//! Reasons why the analysis of a command may be incomplete, worded for the person who approves it.

use std::fmt::{self, Display};

/// A reason why the analysis of a command may be incomplete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Doubt {
    /// A character that is invisible or displayed as another one.
    Character(char),
    /// Longer than [`MAX_COMMAND_BYTES`](super::MAX_COMMAND_BYTES).
    TooLong,
    /// Nested or branched more than the parser is allowed to follow.
    TooDeep,
    /// A syntax error, or a syntax that the parser does not support.
    Syntax,
    /// `$(…)`, backquotes, `<(…)`.
    Substitution,
    /// `$NAME`, `${…}`.
    Expansion,
    /// `$((…))`, `((…))`, `$[…]`.
    Arithmetic,
    /// A glob outside of quotes: `*`, `?`, `[…]`.
    Glob,
    /// Brace expansion: `{a,b}`.
    Brace,
    /// Tilde expansion: `~`.
    Tilde,
    /// A backslash outside of quotes.
    Backslash,
    /// `$'…'` or `$"…"`.
    Quoting,
    /// A line continuation: a backslash at the end of a line.
    Continuation,
    /// An assignment to this variable.
    Assignment(String),
    /// A function definition.
    Function,
    /// A branch or a loop: `if`, `for`, `while`, `case`, `[[`.
    ControlFlow,
    /// A subshell `( … )` or a group `{ … }`.
    Group,
    /// A background command: `&`, `coproc`.
    Background,
    /// A here-document or here-string: `<<`, `<<<`.
    HereDocument,
    /// A working directory that is not known statically.
    Folder,
    /// This builtin evaluates text or changes how the shell reads later commands.
    Evaluates(String),
    /// This interpreter gets code as an argument or on its standard input.
    InlineCode(String),
    /// This program runs another one.
    Runs(String),
    /// A part that runs something which is not in the text, such as a shell that is fed through a pipe.
    Unread(String),
}

impl Doubt {
    /// Whether the text does not show all programs that the command runs: a rule that denies may mean any of them.
    pub(super) fn hides_programs(&self) -> bool {
        matches!(self, Self::Unread(_) | Self::TooLong | Self::TooDeep | Self::Syntax)
    }
}

impl Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Character(c) => {
                write!(f, "it contains the character U+{:04X}, which cannot be seen", *c as u32)
            }
            Self::TooLong => write!(f, "it is longer than {} bytes", super::MAX_COMMAND_BYTES),
            Self::TooDeep => write!(f, "it nests or branches too much"),
            Self::Syntax => write!(f, "it could not be read as a shell command"),
            Self::Substitution => write!(f, "another command's output is put into it"),
            Self::Expansion => write!(f, "a variable is put into it"),
            Self::Arithmetic => write!(f, "the result of a calculation is put into it"),
            Self::Glob => write!(f, "file names are put into it for a pattern outside of quotes"),
            Self::Brace => write!(f, "a brace outside of quotes becomes several words"),
            Self::Tilde => write!(f, "`~` outside of quotes becomes a home folder"),
            Self::Backslash => write!(f, "there is a backslash outside of quotes"),
            Self::Quoting => write!(f, "it is quoted with `$'…'` or `$\"…\"`"),
            Self::Continuation => write!(f, "a line goes on after a backslash"),
            Self::Assignment(name) => write!(f, "it sets `{name}`, which can change what programs do"),
            Self::Function => write!(f, "it defines a function"),
            Self::ControlFlow => write!(f, "it branches or loops"),
            Self::Group => write!(f, "it has a subshell or a group"),
            Self::Background => write!(f, "a part of it runs in the background"),
            Self::HereDocument => write!(f, "it has a here-document"),
            Self::Folder => write!(f, "the folder that a part of it runs in is not certain"),
            Self::Evaluates(name) => write!(f, "`{name}` evaluates text or changes how commands are read"),
            Self::InlineCode(name) => write!(f, "`{name}` runs code that is part of the command"),
            Self::Runs(name) => write!(f, "`{name}` runs another program"),
            Self::Unread(what) => write!(f, "{what}, which cannot be read beforehand"),
        }
    }
}
