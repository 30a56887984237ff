//! Variables that a command line itself sets, by `for` and `read`, and which words with them are harmless for a program
//! that only reads. A variable of the environment, or one that is put together, counts for nothing here.

use std::collections::BTreeMap;

use super::programs::Profile;
use super::{Command, Doubt, ParsedCommand, Word};

/// What a variable becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Binding {
    /// Names and files below the working directory that the text lists.
    Listed {
        /// Whether none of them can be taken for an option.
        operands: bool,
    },
    /// Anything.
    Unknown,
}

impl Binding {
    /// The binding of a loop's variable. `None` as the values means that they are not in the text.
    pub(super) fn of_loop(values: Option<&[Word]>) -> Self {
        let is_below = |word: &Word| {
            let text = word.text();
            let is_plain =
                matches!(word.doubt(), None | Some(Doubt::Glob | Doubt::Brace)) && !word.raw().contains('$');
            is_plain && !text.starts_with(['/', '~']) && !text.contains("..") && !text.contains('{')
                || is_range(word)
        };
        let is_operand = |word: &Word| {
            word.text().starts_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_'))
                || is_range(word)
        };
        match values {
            Some(values) if values.iter().all(is_below) => {
                Self::Listed { operands: values.iter().all(is_operand) }
            }
            _ => Self::Unknown,
        }
    }

    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Listed { operands: one }, Self::Listed { operands: other }) => {
                Self::Listed { operands: one && other }
            }
            _ => Self::Unknown,
        }
    }
}

/// Whether a word is a range of numbers: `{1..5}`.
fn is_range(word: &Word) -> bool {
    let inner = word.raw().strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    inner.and_then(|inner| inner.split_once("..")).is_some_and(|(from, to)| {
        [from, to].iter().all(|end| !end.is_empty() && end.bytes().all(|c| c.is_ascii_digit()))
    })
}

/// Whether a variable means nothing to the shell or to programs: a short name, or one in lower case.
pub(super) fn is_plain_name(name: &str) -> bool {
    let is_lower = name.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_');
    let is_special = matches!(name, "_" | "histchars" | "auto_resume") || name.ends_with("_proxy");
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts && !is_special && (is_lower || name.len() == 1)
}

/// The variables that a `read` sets.
pub(super) fn names_read(command: &Command) -> impl Iterator<Item = &str> {
    let is_read = matches!(command.name(), "read" | "mapfile" | "readarray" | "getopts");
    command.args().filter(move |arg| is_read && !arg.starts_with('-'))
}

/// Accepts `read` with options that only change how it reads, and variables that mean nothing else.
pub(super) fn read(command: &Command) -> Result<(), String> {
    let mut args = command.argv.iter().skip(1);
    while let Some(word) = args.next() {
        match word.text() {
            _ if !word.is_literal() => return Err(format!("what `{}` becomes is not certain", word.raw())),
            "-r" => {}
            "-d" | "-n" if args.next().is_some_and(Word::is_literal) => {}
            name if is_plain_name(name) => {}
            other => return Err(format!("`read {other}` can change what programs do")),
        }
    }
    Ok(())
}

/// Programs that use their arguments as text only, whatever they are.
const TEXT_ONLY: &[&str] = &["echo", ":", "true", "false", "basename", "dirname"];
/// Programs whose operands are files to read, if they are not taken for options.
const READ_OPERANDS: &[&str] = &["find", "awk", "gawk", "mawk", "nawk", "git"];

impl ParsedCommand {
    pub(super) fn bind(&mut self, name: &str, binding: Binding) {
        let bound = self.bindings.get(name).map_or(binding, |earlier| earlier.and(binding));
        self.bindings.insert(name.to_owned(), bound);
    }

    /// Whether a word of a command is harmless with whatever its variables become: text for a program that only prints, or
    /// files below the working directory for one that only reads.
    pub(super) fn is_harmless_variable(&self, at: usize, command: &Command, profile: &Profile) -> bool {
        let Some(word) = command.argv.get(at).filter(|word| !word.variables().is_empty()) else {
            return false;
        };
        let Some(binding) = binding_of(word, &self.bindings) else { return false };
        let (name, text) = (command.name(), word.text());
        if TEXT_ONLY.contains(&name) {
            return true;
        }
        match name {
            // Only the first argument can be an option or the format.
            "printf" => return at > 1 && command.argv.get(1).is_some_and(Word::is_literal),
            "test" | "[" => return is_plain_test(command),
            _ => {}
        }
        let Binding::Listed { operands } = binding else { return false };
        // What is around the variable must not lead elsewhere.
        if text.starts_with(['/', '~']) || text.contains("..") {
            return false;
        }
        let is_operand = word.is_one_word()
            && (operands || text.starts_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_')));
        match profile {
            Profile::Reads => true,
            Profile::ReadsExcept(_) => is_operand,
            Profile::Check(_) => is_operand && READ_OPERANDS.contains(&name),
            Profile::SingleOperand | Profile::VersionOnly => false,
        }
    }
}

impl ParsedCommand {
    /// Whether a word is certain to name a file below the working directory, whatever its variables become.
    pub(super) fn names_file_below(&self, word: &Word) -> bool {
        let text = word.text();
        let is_listed = matches!(binding_of(word, &self.bindings), Some(Binding::Listed { .. }));
        is_listed && word.is_one_word() && !text.starts_with(['/', '~']) && !text.contains("..")
    }
}

/// What is known of all variables of a word; `None` if one of them is not set by the command line itself.
fn binding_of(word: &Word, bindings: &BTreeMap<String, Binding>) -> Option<Binding> {
    let all: Option<Vec<Binding>> = word.variables().iter().map(|name| bindings.get(name).copied()).collect();
    all?.into_iter().reduce(Binding::and)
}

/// Whether a test is a single comparison whose operator stands in the text, so that no value can become one.
fn is_plain_test(command: &Command) -> bool {
    let mut words = command.argv.get(1..).unwrap_or_default();
    if command.name() == "[" {
        match words.split_last() {
            Some((last, rest)) if last.text() == "]" => words = rest,
            _ => return false,
        }
    }
    if let Some((first, rest)) = words.split_first()
        && first.text() == "!"
        && first.is_literal()
    {
        words = rest;
    }
    let is_unary = |word: &Word| {
        word.is_literal()
            && matches!(
                word.text(),
                "-e" | "-f" | "-d" | "-r" | "-w" | "-x" | "-s" | "-L" | "-h" | "-z" | "-n"
            )
    };
    let is_binary = |word: &Word| {
        word.is_literal()
            && matches!(
                word.text(),
                "=" | "==" | "!=" | "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge" | "-nt" | "-ot" | "-ef"
            )
    };
    match words {
        [operator, operand] => is_unary(operator) && operand.is_one_word(),
        [one, operator, other] => is_binary(operator) && one.is_one_word() && other.is_one_word(),
        _ => false,
    }
}
