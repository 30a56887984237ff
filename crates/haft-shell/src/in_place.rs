//! Simulates `sed -i` on text, so that its effect can be shown before it runs. Covers only the subset whose result is
//! exactly that of GNU sed; reads and writes no files.

mod pattern;

use regex::{Captures, Regex};

use self::pattern::Pattern;
use super::sed::{self, Address, Call, Substitution};
use super::{Cwd, ParsedCommand};

/// A `sed -i` command that can be simulated.
#[derive(Debug)]
pub struct InPlace {
    /// The file, as spelled in the command.
    pub file: String,
    /// The backup file that sed keeps, if any.
    pub backup: Option<String>,
    quiet: bool,
    steps: Vec<Step>,
}

#[derive(Debug)]
struct Step {
    from: Option<AddressMatcher>,
    to: Option<AddressMatcher>,
    negated: bool,
    action: Action,
}

/// An address with its pattern compiled.
#[derive(Debug)]
enum AddressMatcher {
    Line(usize),
    Last,
    Pattern(Pattern),
}

#[derive(Debug)]
enum Action {
    Substitute { pattern: Pattern, replacement: Vec<Piece>, all: bool, nth: usize, print: bool },
    Delete,
    Print,
}

/// A piece of a replacement.
#[derive(Debug)]
enum Piece {
    Text(String),
    Group(usize),
}

/// Recognises a command that is nothing but a `sed -i` on one file and can be simulated exactly.
pub fn in_place(understood: &ParsedCommand) -> Option<InPlace> {
    let ([command], []) = (understood.commands(), understood.doubts()) else { return None };
    if !matches!(command.name(), "sed" | "gsed") || !command.redirects.is_empty() || command.cwd != Cwd::Start
    {
        return None;
    }
    let call = sed::call(command)?;
    let suffix = call.in_place.as_deref()?;
    let ([file], false) = (call.files.as_slice(), call.null_data) else { return None };
    if suffix.contains(['*', '/']) || file == "-" {
        return None;
    }
    let backup = (!suffix.is_empty()).then(|| format!("{file}{suffix}"));
    Some(InPlace { file: file.clone(), backup, quiet: call.quiet, steps: steps(&call)? })
}

fn steps(call: &Call) -> Option<Vec<Step>> {
    let mut steps: Vec<Step> = Vec::new();
    for step in &call.steps {
        // A deleted line skips the later steps, so a range there would not see every line.
        if step.to.is_some() && steps.iter().any(|step| matches!(step.action, Action::Delete)) {
            return None;
        }
        let matcher = |address: &Option<Address>| {
            Some(match address {
                None => None,
                Some(Address::Line(line)) => Some(AddressMatcher::Line(*line)),
                Some(Address::Last) => Some(AddressMatcher::Last),
                Some(Address::Pattern(pattern)) => {
                    Some(AddressMatcher::Pattern(Pattern::read(pattern, call.extended, false)?))
                }
            })
        };
        let action = match &step.action {
            sed::Action::Substitute(substitution) => substitute(substitution, call.extended)?,
            sed::Action::Delete => Action::Delete,
            sed::Action::Print => Action::Print,
            sed::Action::Other => return None,
        };
        steps.push(Step {
            from: matcher(&step.from)?,
            to: matcher(&step.to)?,
            negated: step.negated,
            action,
        });
    }
    (!steps.is_empty()).then_some(steps)
}

fn substitute(substitution: &Substitution, extended: bool) -> Option<Action> {
    if substitution.multiline {
        return None;
    }
    let pattern = Pattern::read(&substitution.pattern, extended, substitution.ignore_case)?;
    let replacement = pieces(&substitution.replacement, pattern.groups())?;
    let nth = substitution.nth.unwrap_or(1);
    Some(Action::Substitute { pattern, replacement, all: substitution.all, nth, print: substitution.print })
}

/// Parses a replacement; `None` for escapes that are not simulated.
fn pieces(text: &str, groups: usize) -> Option<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let group = match c {
            '&' => 0,
            '\\' => match chars.next()? {
                c @ '1'..='9' => c.to_digit(10)? as usize,
                'n' => {
                    literal.push('\n');
                    continue;
                }
                't' => {
                    literal.push('\t');
                    continue;
                }
                c if c.is_ascii_punctuation() => {
                    literal.push(c);
                    continue;
                }
                _ => return None,
            },
            c => {
                literal.push(c);
                continue;
            }
        };
        if group > groups {
            return None;
        }
        pieces.push(Piece::Text(std::mem::take(&mut literal)));
        pieces.push(Piece::Group(group));
    }
    pieces.push(Piece::Text(literal));
    Some(pieces)
}

impl InPlace {
    /// The text of the file after the command; `None` if it depends on how sed's locale reads non-ASCII characters.
    pub fn apply(&self, text: &str) -> Option<String> {
        let patterns = self.steps.iter().flat_map(|step| {
            let action =
                if let Action::Substitute { pattern, .. } = &step.action { Some(pattern) } else { None };
            let addresses = [&step.from, &step.to].into_iter().flatten();
            action.into_iter().chain(addresses.filter_map(|address| {
                if let AddressMatcher::Pattern(pattern) = address { Some(pattern) } else { None }
            }))
        });
        if !text.is_ascii() && patterns.into_iter().any(Pattern::needs_ascii) {
            return None;
        }
        let mut output = Output::default();
        let mut ranges = vec![None; self.steps.len()];
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        for (n, line) in lines.iter().enumerate() {
            let bare = line.strip_suffix('\n');
            let end = if bare.is_some() { "\n" } else { "" };
            let mut pattern_space = bare.unwrap_or(line).to_owned();
            let position = Position { line: n + 1, last: n + 1 == lines.len() };
            let mut deleted = false;
            for (step, range) in self.steps.iter().zip(&mut ranges) {
                if step.applies(&position, &pattern_space, range) == step.negated {
                    continue;
                }
                match &step.action {
                    Action::Delete => {
                        deleted = true;
                        break;
                    }
                    Action::Print => output.put(&pattern_space, end),
                    Action::Substitute { pattern, replacement, all, nth, print } => {
                        if let Some(changed) =
                            replace(&pattern_space, pattern.regex(), replacement, *nth, *all)
                        {
                            pattern_space = changed;
                            if *print {
                                output.put(&pattern_space, end);
                            }
                        }
                    }
                }
            }
            if !deleted && !self.quiet {
                output.put(&pattern_space, end);
            }
        }
        Some(output.text)
    }
}

/// The current line.
struct Position {
    line: usize,
    last: bool,
}

impl Step {
    /// Whether a line is addressed. `range` is the state of the step's range: `Some` while it is active, with its last
    /// line if the end is a line number.
    fn applies(&self, position: &Position, text: &str, range: &mut Option<Option<usize>>) -> bool {
        let Some(from) = &self.from else { return true };
        let Some(to) = &self.to else { return from.matches(position, text) };
        let Some(end) = *range else {
            if !from.matches(position, text) {
                return false;
            }
            *range = match to {
                AddressMatcher::Line(line) if *line <= position.line => None,
                AddressMatcher::Line(line) => Some(Some(*line)),
                AddressMatcher::Last if position.last => None,
                _ => Some(None),
            };
            return true;
        };
        let ended = match end {
            Some(line) => position.line >= line,
            None => to.matches(position, text),
        };
        if ended {
            *range = None;
        }
        true
    }
}

impl AddressMatcher {
    fn matches(&self, position: &Position, text: &str) -> bool {
        match self {
            Self::Line(line) => position.line == *line,
            Self::Last => position.last,
            Self::Pattern(pattern) => pattern.regex().is_match(text),
        }
    }
}

#[derive(Default)]
struct Output {
    text: String,
    /// Whether the last line has no newline yet; it gets one when another line follows.
    is_open: bool,
}

impl Output {
    fn put(&mut self, line: &str, end: &str) {
        if self.is_open {
            self.text.push('\n');
        }
        self.text.push_str(line);
        self.text.push_str(end);
        self.is_open = end.is_empty();
    }
}

fn replace(text: &str, regex: &Regex, replacement: &[Piece], nth: usize, all: bool) -> Option<String> {
    let mut output = String::with_capacity(text.len());
    let mut copied = 0;
    let matched = regex.captures_iter(text).skip(nth - 1).take(if all { usize::MAX } else { 1 });
    let mut found = false;
    for captures in matched {
        let whole = captures.get(0)?;
        output.push_str(text.get(copied..whole.start())?);
        expand(&captures, replacement, &mut output);
        copied = whole.end();
        found = true;
    }
    output.push_str(text.get(copied..)?);
    found.then_some(output)
}

fn expand(captures: &Captures<'_>, replacement: &[Piece], output: &mut String) {
    for piece in replacement {
        match piece {
            Piece::Text(text) => output.push_str(text),
            Piece::Group(group) => output.push_str(captures.get(*group).map_or("", |group| group.as_str())),
        }
    }
}
