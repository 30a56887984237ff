//! Why a command is not understood for certain, in words for the person who is asked.

use std::fmt::{self, Display};

/// Something that keeps a command from being understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Doubt {
    /// Characters that are not shown or shown as something else.
    Character(char),
    /// More text than is read.
    TooLong,
    /// Nested or branched more than is read.
    TooDeep,
    /// Not the shell's grammar, or not as far as it is known here.
    Syntax,
    /// `$(…)`, backquotes, `<(…)`.
    Substitution,
    /// `$NAME`, `${…}`.
    Expansion,
    /// `$((…))` and its like.
    Arithmetic,
    /// `*`, `?`, `[…]` outside of quotes.
    Glob,
    /// `{a,b}`.
    Brace,
    /// `~`.
    Tilde,
    /// A backslash outside of quotes.
    Backslash,
    /// `$'…'` or `$"…"`.
    Quoting,
    /// A line that goes on after a backslash.
    Continuation,
    /// `NAME=value`.
    Assignment(String),
    /// A function is defined.
    Function,
    /// `if`, `for`, `while`, `case` and their like.
    ControlFlow,
    /// `( … )` or `{ … }`.
    Group,
    /// `&`, `coproc`.
    Background,
    /// `<<` or `<<<`.
    HereDocument,
    /// A folder that depends on what happens.
    Folder,
    /// A builtin that evaluates text or changes how later commands are read.
    Evaluates(String),
    /// Code in an argument of an interpreter, or on its input.
    InlineCode(String),
    /// A program that runs others: what it runs is not certain.
    Runs(String),
}

impl Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Character(c) => {
                write!(f, "it contains the character U+{:04X}, which cannot be seen", *c as u32)
            }
            Self::TooLong => write!(f, "it is longer than {} bytes", super::LONGEST),
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
        }
    }
}
