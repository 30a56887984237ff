//! `sed -i`, played through on text, so that what it will do can be shown before it does it. Only what comes out
//! exactly as with GNU sed is played; everything else is left to sed.

mod pattern;

use regex::{Captures, Regex};

use self::pattern::Pattern;
use super::sed::{self, Act, Address, Call, Substitution};
use super::{Cwd, Understood};

/// A `sed -i` that can be played through.
#[derive(Debug)]
pub struct InPlace {
    /// The file, as it is written in the command.
    pub file: String,
    /// Where the file as it was is kept, if it is.
    pub backup: Option<String>,
    quiet: bool,
    steps: Vec<Step>,
}

#[derive(Debug)]
struct Step {
    from: Option<Place>,
    to: Option<Place>,
    negated: bool,
    act: Deed,
}

#[derive(Debug)]
enum Place {
    Line(usize),
    Last,
    Pattern(Pattern),
}

#[derive(Debug)]
enum Deed {
    Substitute { pattern: Pattern, replacement: Vec<Piece>, all: bool, nth: usize, print: bool },
    Delete,
    Print,
}

#[derive(Debug)]
enum Piece {
    Text(String),
    Group(usize),
}

/// Recognises a lone `sed -i` on one file whose effect can be told exactly.
pub fn in_place(understood: &Understood) -> Option<InPlace> {
    let ([command], []) = (understood.commands(), understood.doubts()) else { return None };
    if !matches!(command.name(), "sed" | "gsed") || !command.redirects.is_empty() || command.cwd != Cwd::Start
    {
        return None;
    }
    let call = sed::call(command)?;
    let suffix = call.in_place.as_deref()?;
    let ([file], false) = (call.files.as_slice(), call.zero) else { return None };
    if suffix.contains(['*', '/']) || file == "-" {
        return None;
    }
    let backup = (!suffix.is_empty()).then(|| format!("{file}{suffix}"));
    Some(InPlace { file: file.clone(), backup, quiet: call.quiet, steps: steps(&call)? })
}

fn steps(call: &Call) -> Option<Vec<Step>> {
    let mut steps: Vec<Step> = Vec::new();
    for step in &call.steps {
        // A range that is not looked at on every line is another matter.
        if step.to.is_some() && steps.iter().any(|step| matches!(step.act, Deed::Delete)) {
            return None;
        }
        let place = |address: &Option<Address>| {
            Some(match address {
                None => None,
                Some(Address::Line(line)) => Some(Place::Line(*line)),
                Some(Address::Last) => Some(Place::Last),
                Some(Address::Pattern(pattern)) => {
                    Some(Place::Pattern(Pattern::read(pattern, call.extended, false)?))
                }
            })
        };
        let act = match &step.act {
            Act::Substitute(substitution) => substitute(substitution, call.extended)?,
            Act::Delete => Deed::Delete,
            Act::Print => Deed::Print,
            Act::Other => return None,
        };
        steps.push(Step { from: place(&step.from)?, to: place(&step.to)?, negated: step.negated, act });
    }
    (!steps.is_empty()).then_some(steps)
}

fn substitute(substitution: &Substitution, extended: bool) -> Option<Deed> {
    if substitution.multiline {
        return None;
    }
    let pattern = Pattern::read(&substitution.pattern, extended, substitution.any_case)?;
    let replacement = pieces(&substitution.replacement, pattern.groups())?;
    let nth = substitution.nth.unwrap_or(1);
    Some(Deed::Substitute { pattern, replacement, all: substitution.all, nth, print: substitution.print })
}

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
    /// What the file's text becomes, or none if it depends on how sed sees characters that are not ASCII.
    pub fn apply(&self, text: &str) -> Option<String> {
        let patterns =
            self.steps.iter().flat_map(|step| {
                let act = if let Deed::Substitute { pattern, .. } = &step.act { Some(pattern) } else { None };
                let places = [&step.from, &step.to].into_iter().flatten();
                act.into_iter().chain(places.filter_map(|place| {
                    if let Place::Pattern(pattern) = place { Some(pattern) } else { None }
                }))
            });
        if !text.is_ascii() && patterns.into_iter().any(Pattern::needs_ascii) {
            return None;
        }
        let mut output = Output::default();
        let mut active = vec![None; self.steps.len()];
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        for (n, line) in lines.iter().enumerate() {
            let bare = line.strip_suffix('\n');
            let end = if bare.is_some() { "\n" } else { "" };
            let mut held = bare.unwrap_or(line).to_owned();
            let at = At { line: n + 1, last: n + 1 == lines.len() };
            let mut deleted = false;
            for (step, active) in self.steps.iter().zip(&mut active) {
                if step.applies(&at, &held, active) == step.negated {
                    continue;
                }
                match &step.act {
                    Deed::Delete => {
                        deleted = true;
                        break;
                    }
                    Deed::Print => output.put(&held, end),
                    Deed::Substitute { pattern, replacement, all, nth, print } => {
                        if let Some(changed) = replace(&held, pattern.regex(), replacement, *nth, *all) {
                            held = changed;
                            if *print {
                                output.put(&held, end);
                            }
                        }
                    }
                }
            }
            if !deleted && !self.quiet {
                output.put(&held, end);
            }
        }
        Some(output.text)
    }
}

struct At {
    line: usize,
    last: bool,
}

impl Step {
    /// Whether a line is addressed. `active` is where a range that has begun is to end at the latest.
    fn applies(&self, at: &At, text: &str, active: &mut Option<Option<usize>>) -> bool {
        let Some(from) = &self.from else { return true };
        let Some(to) = &self.to else { return from.is_at(at, text) };
        let Some(end) = *active else {
            if !from.is_at(at, text) {
                return false;
            }
            *active = match to {
                Place::Line(line) if *line <= at.line => None,
                Place::Line(line) => Some(Some(*line)),
                Place::Last if at.last => None,
                _ => Some(None),
            };
            return true;
        };
        let ended = match end {
            Some(line) => at.line >= line,
            None => to.is_at(at, text),
        };
        if ended {
            *active = None;
        }
        true
    }
}

impl Place {
    fn is_at(&self, at: &At, text: &str) -> bool {
        match self {
            Self::Line(line) => at.line == *line,
            Self::Last => at.last,
            Self::Pattern(pattern) => pattern.regex().is_match(text),
        }
    }
}

#[derive(Default)]
struct Output {
    text: String,
    /// A line that has no end gets one when another comes behind it.
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
