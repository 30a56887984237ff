//! Proves that a command changes nothing. Every program must be literal and in the table (`programs`); branches and loops
//! are as harmless as the commands in them. A glob, or a variable that the command itself sets, is accepted only as an
//! argument with which nothing that it could become does harm.

use super::programs::{Profile, profile};
use super::wrap::{self, Nested};
use super::{Command, Doubt, ParsedCommand, Redirect, RedirectKind, Word};

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
    if let Some(doubt) = understood.doubts().iter().find(|doubt| !is_settled_by_words(doubt)) {
        return Some(doubt.to_string());
    }
    if understood.commands().is_empty() {
        return Some("there is no command".to_owned());
    }
    understood.commands().iter().find_map(|command| objection_to(command, understood))
}

/// Whether looking at each word of each command settles a doubt. All words of a doubt that are not among the arguments of a
/// command are values of a loop or patterns, which are only compared or assigned.
fn is_settled_by_words(doubt: &Doubt) -> bool {
    match doubt {
        Doubt::Glob | Doubt::Expansion | Doubt::Brace | Doubt::ControlFlow | Doubt::Group => true,
        // How `read` splits a line; any other use of it is an objection to the command.
        Doubt::Assignment(name) => name == "IFS",
        // The table has what these may be given.
        Doubt::Evaluates(name) => matches!(name.as_str(), "read" | "break" | "continue"),
        _ => false,
    }
}

fn objection_to(command: &Command, understood: &ParsedCommand) -> Option<String> {
    let sets_only_for_read = |set: &super::Assignment| {
        command.name() == "read" && set.value.as_ref().is_some_and(Word::is_literal)
    };
    if let Some(set) = command.assignments.iter().find(|set| !sets_only_for_read(set)) {
        return Some(Doubt::Assignment(set.name.clone()).to_string());
    }
    let is_harmless = |redirect: &Redirect| {
        redirect.is_harmless()
            || redirect.kind == RedirectKind::Read && understood.names_file_below(&redirect.target)
    };
    if let Some(redirect) = command.redirects.iter().find(|redirect| !is_harmless(redirect)) {
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
    let uncertain = |word: &Word| format!("what `{}` becomes is not certain", word.raw());
    if is_transparent(name) {
        return own_words(command).iter().find(|word| !word.is_literal()).map(uncertain);
    }
    let Some(profile) = profile(name) else { return Some(format!("`{name}` is not known to only read")) };
    let is_safe = |at: usize, word: &Word| {
        word.is_literal()
            || is_safe_glob(word, profile)
            || understood.is_harmless_variable(at, command, profile)
    };
    if let Some((_, word)) = command.argv.iter().enumerate().find(|(at, word)| !is_safe(*at, word)) {
        return Some(uncertain(word));
    }
    profile.objection(command)
}

/// The words of a wrapper up to the program that it runs.
fn own_words(command: &Command) -> &[Word] {
    let nested = wrap::nested(command);
    let count = match nested.as_slice() {
        [Nested::Command { argv, .. }] => (command.argv.len() + 1).saturating_sub(argv.len()),
        _ => command.argv.len(),
    };
    command.argv.get(..count).unwrap_or(&command.argv)
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
