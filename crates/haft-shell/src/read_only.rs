//! Proves that a command changes nothing. Every word must be literal and every program in the table (`programs`); a
//! glob is accepted only where no file name that it could expand to does harm.

use super::programs::{Profile, profile};
use super::{Command, Doubt, ParsedCommand, Word};

/// Folders of the system's own programs.
const SYSTEM_FOLDERS: &[&str] = &["/bin/", "/usr/bin/"];

/// The result of [`read_only`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    /// The command is proven to change nothing.
    ReadOnly,
    /// There is no proof, for this reason.
    Not(String),
}

impl Proof {
    /// Whether the command is proven to change nothing.
    pub fn proven(&self) -> bool {
        *self == Self::ReadOnly
    }
}

/// Checks whether a command provably changes nothing: neither files nor anything else, apart from caches of what
/// programs read, such as git's index. It may read anything.
pub fn read_only(understood: &ParsedCommand) -> Proof {
    match objection(understood) {
        Some(why) => Proof::Not(why),
        None => Proof::ReadOnly,
    }
}

fn objection(understood: &ParsedCommand) -> Option<String> {
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
    let in_system_folder = SYSTEM_FOLDERS.iter().any(|folder| program.strip_prefix(folder) == Some(name));
    if program != name && !in_system_folder {
        return Some(format!("`{program}` is not one of the system's programs"));
    }
    if is_transparent(name) {
        return None;
    }
    let Some(profile) = profile(name) else { return Some(format!("`{name}` is not known to only read")) };
    if let Some(word) = command.argv.iter().find(|word| !word.is_literal() && !is_safe_glob(word, profile)) {
        return Some(format!("what `{}` becomes is not certain", word.raw()));
    }
    profile.objection(command)
}

/// Wrappers that do nothing themselves. The command that they run is checked on its own.
fn is_transparent(name: &str) -> bool {
    matches!(name, "timeout" | "nice" | "stdbuf")
}

/// Whether a word is a glob that can only expand to operands that the program reads, not to an option.
fn is_safe_glob(word: &Word, profile: &Profile) -> bool {
    let is_no_option =
        word.raw().starts_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '/' | '_'));
    word.doubt() == Some(&Doubt::Glob)
        && match profile {
            Profile::Reads => true,
            Profile::ReadsExcept(_) => is_no_option,
            Profile::SingleOperand | Profile::VersionOnly | Profile::Check(_) => false,
        }
}
