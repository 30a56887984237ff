//! Static analysis of shell commands. A real shell parser reads the text once limits on its size and nesting hold
//! (`gate`). Checks that deny over-approximate: they look at every word that could be a command
//! ([`ParsedCommand::words`]). Checks that allow under-approximate: they accept only literal words of known programs.
//! This crate reads no files, starts no processes and knows neither tools nor dialects. It does not confine
//! commands: the sandbox does.

mod accesses;
mod banned;
mod bindings;
mod code;
mod doubt;
mod exit_code;
mod feed;
mod files;
mod gate;
mod git;
mod in_place;
mod interactive;
mod options;
mod programs;
mod read_only;
mod rules;
mod scan;
mod scripts;
mod sed;
mod sensitive;
mod subcommands;
#[cfg(test)]
mod tests;
mod variables;
mod walk;
mod word;
mod wrap;

use std::collections::{BTreeMap, BTreeSet};

use bindings::Binding;
use feed::Input;

pub use accesses::{Accesses, Repository, accesses};
pub use banned::{Banned, Category, banned, uncertain_program, unread};
pub use doubt::Doubt;
pub use exit_code::exit_code_meaning;
pub use in_place::{InPlace, in_place};
pub use interactive::{Interactive, interactive};
pub use read_only::{Proof, read_only};
pub use rules::{
    BadRule, Coverage, MightDeny, Rule, RuleSet, Side, exact_rules, matches, offered_rules, whole_rule,
};
pub use scripts::{Script, ScriptFile, parse_with_scripts};
pub use sensitive::{Sensitive, sensitive};
pub use word::Word;

/// Longest command that is parsed, in bytes.
pub const MAX_COMMAND_BYTES: usize = 16 * 1024;
/// Deepest nesting of brackets in a command that is parsed.
pub const MAX_NESTING: usize = 32;

/// Parses a command. Never fails: text that the parser rejects yields doubts and a scan of its words.
///
/// ```
/// use haft_shell as shell;
/// let understood = shell::parse("cd src && timeout 5 rg -n main | head");
/// assert!(understood.doubts().is_empty());
/// assert!(understood.words().contains("rg"));
/// assert!(shell::read_only(&understood).proven());
/// ```
pub fn parse(text: &str) -> ParsedCommand {
    walk::read(text, None)
}

/// A parsed command: the simple commands that it runs, and the reasons why the analysis may be incomplete.
#[derive(Debug, Clone, Default)]
pub struct ParsedCommand {
    /// The whole text, without blanks around it.
    text: String,
    commands: Vec<Command>,
    doubts: Vec<Doubt>,
    /// Words that could be commands, from text that the parser could not read.
    scanned: Vec<String>,
    words: BTreeSet<String>,
    /// All words of the text if a program that it runs is not certain: any of them may become one.
    nearby: BTreeSet<String>,
    /// The variables that loops and `read` set, with what they become.
    bindings: BTreeMap<String, Binding>,
    /// The simple command that sets the exit code, if that is certain.
    exit_code_source: Option<ExitCodeSource>,
}

/// The simple command whose exit code is that of the whole command line.
#[derive(Debug, Clone)]
struct ExitCodeSource {
    /// Its words, with their quotes.
    argv: Vec<String>,
    /// The commands joined to it with `&&`, whose failure would set the exit code instead.
    preceding: Preceding,
}

/// The commands before the last one of an `&&` list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Preceding {
    None,
    /// Only `cd`, which prints an error when it fails.
    OnlyCd,
    Other,
}

impl ParsedCommand {
    /// Every simple command, at any depth, in source order; the command that a wrapper runs follows the wrapper.
    pub fn commands(&self) -> &[Command] {
        &self.commands
    }

    /// Reasons why the analysis may be incomplete. If this is empty, [`commands`](Self::commands) is exact, word by
    /// word.
    pub fn doubts(&self) -> &[Doubt] {
        &self.doubts
    }

    /// Base names of all words that could be run as a command, through wrappers, substitutions and quotes: in lower
    /// case, with and without a version (`python3.11` and `python`). An over-approximation.
    pub fn words(&self) -> &BTreeSet<String> {
        &self.words
    }

    /// Whether the command runs files that may be scripts, whose text [`parse_with_scripts`] would look at.
    pub fn runs_files(&self) -> bool {
        let runs = |command: &Command| {
            !scripts::files(command).is_empty() || scripts::foreign_folder(command).is_some()
        };
        self.commands.iter().any(runs)
    }

    /// Words of text that the parser could not read.
    pub(crate) fn scanned(&self) -> &[String] {
        &self.scanned
    }

    fn add_doubt(&mut self, doubt: Doubt) {
        if !self.doubts.contains(&doubt) {
            self.doubts.push(doubt);
        }
    }

    /// Records all words of a text as possible commands: the fallback for text that the parser cannot read.
    fn scan(&mut self, text: &str) {
        self.scanned.extend(scan::tokens(text));
    }

    fn collect_words(&mut self) {
        let mut words = BTreeSet::new();
        for command in &self.commands {
            let Some(first) = command.argv.first() else { continue };
            scan::names_of(first.text(), &mut words);
            if !first.is_literal() {
                scan::tokens(first.raw()).for_each(|token| scan::names_of(&token, &mut words));
            }
        }
        for token in &self.scanned {
            scan::names_of(token, &mut words);
        }
        self.words = words;
    }
}

/// A simple command: one program with its arguments.
#[derive(Debug, Clone, Default)]
pub struct Command {
    /// The program and its arguments. Empty if there are only redirections or assignments.
    pub argv: Vec<Word>,
    /// Its redirections, in source order.
    pub redirects: Vec<Redirect>,
    /// Assignments (`NAME=value`) before the program.
    pub assignments: Vec<Assignment>,
    /// The working directory that it runs in.
    pub cwd: Cwd,
    /// Whether the shell runs it in the background.
    pub background: bool,
    /// The wrapper that runs it, such as `timeout` or `xargs`.
    pub by: Option<WrappedBy>,
    /// Whether its standard input comes from another command or a file outside of it.
    pub piped: bool,
    /// Whether its standard output goes to another command or a file.
    captured: bool,
    /// Whether something ends it after a while: `timeout`.
    limited: bool,
    /// Its standard input, as far as the text shows it.
    input: Input,
    /// Here-documents on other descriptors than standard input.
    other_inputs: Vec<Input>,
    /// What process substitutions in its arguments print.
    substituted: Vec<Input>,
    /// Code of another language than the shell's that it gets from its input.
    code: Vec<String>,
}

impl Command {
    /// Base name of the program; empty if there is none.
    pub fn name(&self) -> &str {
        self.argv.first().map_or("", |word| scan::basename(word.text()))
    }

    /// The arguments without quotes: exact where they are literal, a best guess otherwise.
    pub(crate) fn args(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.argv.iter().skip(1).map(Word::text)
    }

    fn is_literal(&self) -> bool {
        self.argv.iter().all(Word::is_literal)
    }
}

/// The wrapper that runs a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrappedBy {
    /// Name of the wrapper's program.
    pub name: String,
    /// Whether the command does the same without the wrapper, such as `nice`.
    pub transparent: bool,
}

/// The working directory of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Cwd {
    /// The directory in which the shell started.
    #[default]
    Start,
    /// After `cd`: an absolute path, or one relative to the directory in which the shell started.
    At(String),
    /// Depends on the run, for example on whether a `cd` succeeds.
    Unknown,
}

/// An assignment to a variable, `NAME=value`.
#[derive(Debug, Clone)]
pub struct Assignment {
    /// Name of the variable.
    pub name: String,
    /// The assigned value; `None` for an array.
    pub value: Option<Word>,
}

/// A redirection of a command's input or output.
#[derive(Debug, Clone)]
pub struct Redirect {
    /// How the target is used.
    pub kind: RedirectKind,
    /// The file or the descriptor; for a here-document, its text.
    pub target: Word,
}

/// How a redirection uses its target.
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
    /// `2>&1`, `<&3`, `>&-`: a descriptor, no file
    Duplicate,
    /// `<<` or `<<<`
    Here,
}

impl Redirect {
    /// Whether it writes no file other than `/dev/null` and opens no network connection.
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
