//! Whether a command is proven to change nothing. Everything has to be literal and in the table of programs; a
//! pattern for file names is let through where no name that it could become does harm.

use super::programs::{Nature, nature};
use super::{Command, Doubt, Understood, Word};

/// Where the system's own programs are.
const SYSTEM: &[&str] = &["/bin/", "/usr/bin/"];

/// Whether a command is proven to change nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    /// It is.
    ReadOnly,
    /// It is not, and why.
    Not(String),
}

impl Proof {
    /// Whether it is proven.
    pub fn proven(&self) -> bool {
        *self == Self::ReadOnly
    }
}

/// Whether a command is proven to change nothing: neither files nor anything else, apart from caches that programs
/// keep of what they read, such as git's index. What it may read is not part of the question.
pub fn read_only(understood: &Understood) -> Proof {
    match objection(understood) {
        Some(why) => Proof::Not(why),
        None => Proof::ReadOnly,
    }
}

fn objection(understood: &Understood) -> Option<String> {
    if let Some(doubt) = understood.doubts().iter().find(|doubt| **doubt != Doubt::Glob) {
        return Some(doubt.to_string());
    }
    if understood.commands().is_empty() {
        return Some("there is no command".to_owned());
    }
    understood.commands().iter().find_map(objection_to)
}

fn objection_to(command: &Command) -> Option<String> {
    if let Some(redirect) = command.redirects.iter().find(|redirect| !redirect.is_harmless()) {
        return Some(format!("it writes to `{}`", redirect.target.raw()));
    }
    let program = match command.argv.first() {
        Some(program) if program.is_literal() => program.text(),
        Some(_) => return Some("which program it runs is not certain".to_owned()),
        None => return None,
    };
    let name = command.name();
    let found = SYSTEM.iter().any(|folder| program.strip_prefix(folder) == Some(name));
    if program != name && !found {
        return Some(format!("`{program}` is not one of the system's programs"));
    }
    if is_transparent(name) {
        return None;
    }
    let Some(nature) = nature(name) else { return Some(format!("`{name}` is not known to only read")) };
    if let Some(word) = command.argv.iter().find(|word| !word.is_literal() && !is_tame(word, nature)) {
        return Some(format!("what `{}` becomes is not certain", word.raw()));
    }
    nature.objection(command)
}

/// What these run is judged as a command of its own; without one they do nothing.
fn is_transparent(name: &str) -> bool {
    matches!(name, "timeout" | "nice" | "stdbuf")
}

/// Whether a pattern becomes nothing but operands that are read.
fn is_tame(word: &Word, nature: &Nature) -> bool {
    let begins = word.raw().starts_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '/' | '_'));
    word.doubt() == Some(&Doubt::Glob)
        && match nature {
            Nature::Reads => true,
            Nature::Except(_) => begins,
            Nature::OneOperand | Nature::Version | Nature::Judge(_) => false,
        }
}
