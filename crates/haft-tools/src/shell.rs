//! What a shell command would do, as far as its text tells. It is read by a real shell parser behind a gate, and
//! judged with two biases: what denies looks at every word that could be a command ([`Understood::words`]), what
//! allows only at what is literal and known through and through. Nothing here reads files, starts processes or
//! knows tools and dialects. None of it contains a command: that is the sandbox's work.

mod banned;
mod doubt;
mod gate;
mod git;
mod in_place;
mod interactive;
mod meaning;
mod options;
mod programs;
mod raw;
mod read_only;
mod rules;
mod sed;
mod sensitive;
#[cfg(test)]
mod tests;
mod touches;
mod walk;
mod word;
mod wrap;

use std::collections::BTreeSet;

pub use banned::{Banned, Category, banned};
pub use doubt::Doubt;
pub use in_place::{InPlace, in_place};
pub use interactive::{Interactive, interactive};
pub use meaning::meaning;
pub use read_only::{Proof, read_only};
pub use rules::{BadRule, Covered, Rule, RuleSet, Side, matches, patterns};
pub use sensitive::{Sensitive, sensitive};
pub use touches::{Touches, touches};
pub use word::Word;

/// The longest command that is read, in bytes.
pub const LONGEST: usize = 16 * 1024;
/// How deep a command may nest.
pub const DEEPEST: usize = 32;

/// Reads a command.
///
/// ```
/// use haft_tools::shell;
/// let understood = shell::parse("cd src && timeout 5 rg -n main | head");
/// assert!(understood.doubts().is_empty());
/// assert!(understood.words().contains("rg"));
/// assert!(shell::read_only(&understood).proven());
/// ```
pub fn parse(text: &str) -> Understood {
    walk::read(text)
}

/// A command that was read: what it runs, and what about it is not certain.
#[derive(Debug, Clone, Default)]
pub struct Understood {
    commands: Vec<Command>,
    doubts: Vec<Doubt>,
    /// Words that could be commands, from text that could not be read as one.
    scanned: Vec<String>,
    words: BTreeSet<String>,
    /// Whose exit code the whole has, if that is certain.
    decides: Option<Decides>,
}

/// The command whose exit code the whole has.
#[derive(Debug, Clone)]
struct Decides {
    /// Its words as they are written.
    argv: Vec<String>,
    /// What could have failed in its place.
    before: Before,
}

/// What runs before a command that is not run unless it succeeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    Nothing,
    /// Only `cd`, which says so when it fails.
    Cd,
    Something,
}

impl Understood {
    /// Every simple command in it, however deep, in the order they stand; what a wrapper runs comes after it.
    pub fn commands(&self) -> &[Command] {
        &self.commands
    }

    /// Why it is not certain what it does. If this is empty, [`commands`](Self::commands) is all there is, word by
    /// word.
    pub fn doubts(&self) -> &[Doubt] {
        &self.doubts
    }

    /// Every word that could be run as a command, by its last name: through wrappers, substitutions and quotes,
    /// in lower case, also without a version (`python` for `python3.11`). Rather too many than one too few.
    pub fn words(&self) -> &BTreeSet<String> {
        &self.words
    }

    /// Words of text that could not be read as commands.
    pub(crate) fn scanned(&self) -> &[String] {
        &self.scanned
    }

    fn doubt(&mut self, doubt: Doubt) {
        if !self.doubts.contains(&doubt) {
            self.doubts.push(doubt);
        }
    }

    /// Takes all words of a text as possible commands, since it cannot be read better.
    fn scan(&mut self, text: &str) {
        self.scanned.extend(raw::tokens(text));
    }

    fn gather_words(&mut self) {
        let mut words = BTreeSet::new();
        for command in &self.commands {
            let Some(first) = command.argv.first() else { continue };
            raw::names_of(first.text(), &mut words);
            if !first.is_literal() {
                raw::tokens(first.raw()).for_each(|token| raw::names_of(&token, &mut words));
            }
        }
        for token in &self.scanned {
            raw::names_of(token, &mut words);
        }
        self.words = words;
    }
}

/// A simple command: one program with its arguments.
#[derive(Debug, Clone, Default)]
pub struct Command {
    /// The program and its arguments. Empty where only redirections or assignments stand.
    pub argv: Vec<Word>,
    /// Where its input and output go, in the order they stand.
    pub redirects: Vec<Redirect>,
    /// `NAME=value` before it.
    pub assignments: Vec<Assignment>,
    /// In which folder it runs.
    pub cwd: Cwd,
    /// Whether it goes on after the next one has begun.
    pub background: bool,
    /// The wrapper that runs it, such as `timeout` or `xargs`.
    pub by: Option<By>,
    /// Whether its input comes from the command before it.
    pub piped: bool,
}

impl Command {
    /// The program by its last name.
    pub fn name(&self) -> &str {
        self.argv.first().map_or("", |word| raw::basename(word.text()))
    }

    /// The arguments as they would arrive, where they are literal; best guesses otherwise.
    pub(crate) fn args(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.argv.iter().skip(1).map(Word::text)
    }

    fn is_literal(&self) -> bool {
        self.argv.iter().all(Word::is_literal)
    }
}

/// What runs a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct By {
    /// Its name.
    pub name: String,
    /// Whether the command does the same without it, as it does without `nice`.
    pub transparent: bool,
}

/// The folder a command runs in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Cwd {
    /// Where the whole began.
    #[default]
    Start,
    /// After `cd`: a path from where the whole began, or an absolute one.
    At(String),
    /// It depends on what happens.
    Unknown,
}

/// `NAME=value`.
#[derive(Debug, Clone)]
pub struct Assignment {
    /// The variable.
    pub name: String,
    /// Its value; none for an array.
    pub value: Option<Word>,
}

/// A redirection.
#[derive(Debug, Clone)]
pub struct Redirect {
    /// What it does with its target.
    pub kind: RedirectKind,
    /// The file or the descriptor; the text of a here-document.
    pub target: Word,
}

/// What a redirection does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedirectKind {
    /// `<`
    Read,
    /// `>`, `>|`, `&>`
    Write,
    /// `>>`, `&>>`
    Append,
    /// `<>`
    ReadWrite,
    /// `2>&1`, `<&3`, `>&-`: no file
    Duplicate,
    /// `<<` or `<<<`
    Here,
}

impl Redirect {
    /// Whether nothing is written but to nowhere.
    fn is_harmless(&self) -> bool {
        let target = self.target.text();
        let network = target.starts_with("/dev/tcp") || target.starts_with("/dev/udp");
        match self.kind {
            RedirectKind::Read => self.target.is_literal() && !network,
            RedirectKind::Write | RedirectKind::Append | RedirectKind::ReadWrite => {
                self.target.is_literal() && target == "/dev/null"
            }
            RedirectKind::Duplicate => true,
            RedirectKind::Here => false,
        }
    }
}
