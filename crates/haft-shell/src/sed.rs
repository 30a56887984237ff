//! sed's command line and scripts, as far as they are plain: `s`, `d`, `p` and a few more with addresses. Whatever
//! could run or write something, or be read in two ways, is refused.

use super::{Command, Word};

/// A call of sed.
#[derive(Debug, Default)]
pub(super) struct Call {
    pub(super) quiet: bool,
    pub(super) extended: bool,
    /// Whether `-z` makes lines end otherwise.
    pub(super) zero: bool,
    /// The suffix of the copy that is kept; empty for none.
    pub(super) in_place: Option<String>,
    pub(super) steps: Vec<Step>,
    pub(super) files: Vec<String>,
}

/// A command with its addresses.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) from: Option<Address>,
    pub(super) to: Option<Address>,
    pub(super) negated: bool,
    pub(super) act: Act,
}

#[derive(Debug)]
pub(super) enum Address {
    Line(usize),
    Last,
    Pattern(String),
}

#[derive(Debug)]
pub(super) enum Act {
    Substitute(Substitution),
    Delete,
    Print,
    /// Something that neither writes nor runs anything.
    Other,
}

#[derive(Debug)]
pub(super) struct Substitution {
    pub(super) pattern: String,
    pub(super) replacement: String,
    pub(super) all: bool,
    pub(super) nth: Option<usize>,
    pub(super) print: bool,
    pub(super) any_case: bool,
    /// Whether `^` and `$` match within, too.
    pub(super) multiline: bool,
}

/// Whether a call of sed only prints.
pub(super) fn read_only(command: &Command) -> Result<(), String> {
    match call(command) {
        Some(call) if call.in_place.is_none() => Ok(()),
        Some(_) => Err("`sed -i` changes files".to_owned()),
        None => Err("the sed script is not known to only print".to_owned()),
    }
}

/// Reads a call of sed, or refuses.
pub(super) fn call(command: &Command) -> Option<Call> {
    let mut call = Call::default();
    let mut scripts = Vec::new();
    let mut words = Vec::new();
    let mut args = command.argv.iter().skip(1);
    while let Some(arg) = args.next() {
        let text = arg.text();
        match text {
            "--" => {
                words.extend(args.by_ref());
                break;
            }
            "--quiet" | "--silent" => call.quiet = true,
            "--regexp-extended" => call.extended = true,
            "--separate" | "--unbuffered" | "--sandbox" => {}
            "--in-place" => call.in_place = Some(String::new()),
            "--expression" => scripts.push(literal(args.next()?)?),
            _ if text.starts_with("--expression=") => {
                scripts.push(literal(arg)?.strip_prefix("--expression=")?)
            }
            _ if text.starts_with("--in-place=") => {
                call.in_place = Some(text.strip_prefix("--in-place=")?.to_owned())
            }
            _ if text.starts_with("--") => return None,
            _ if text.len() > 1 && text.starts_with('-') => {
                let letters = literal(arg)?;
                for (at, letter) in letters.char_indices().skip(1) {
                    let rest = letters.get(at + 1..)?;
                    match letter {
                        'n' => call.quiet = true,
                        'E' | 'r' => call.extended = true,
                        's' | 'u' => {}
                        'z' => call.zero = true,
                        'i' => {
                            call.in_place = Some(rest.to_owned());
                            break;
                        }
                        'e' => {
                            scripts.push(if rest.is_empty() { literal(args.next()?)? } else { rest });
                            break;
                        }
                        _ => return None,
                    }
                }
            }
            _ => words.push(arg),
        }
    }
    if scripts.is_empty() {
        scripts.push(literal(words.first()?)?);
        words.remove(0);
    }
    for script in scripts {
        Reader { rest: script }.script(&mut call.steps)?;
    }
    call.files = words.into_iter().map(|word| literal(word).map(str::to_owned)).collect::<Option<_>>()?;
    Some(call)
}

fn literal(word: &Word) -> Option<&str> {
    word.is_literal().then(|| word.text())
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.rest = self.rest.get(c.len_utf8()..)?;
        Some(c)
    }

    fn take(&mut self, c: char) -> bool {
        let found = self.peek() == Some(c);
        if found {
            self.next();
        }
        found
    }

    fn blanks(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
    }

    fn script(&mut self, steps: &mut Vec<Step>) -> Option<()> {
        let mut groups = 0_usize;
        loop {
            self.rest = self.rest.trim_start_matches([' ', '\t', ';', '\n']);
            if self.rest.is_empty() {
                return (groups == 0).then_some(());
            }
            if self.take('}') {
                groups = groups.checked_sub(1)?;
                continue;
            }
            let (from, to) = self.addresses()?;
            self.blanks();
            let negated = self.take('!');
            self.blanks();
            let act = match self.next()? {
                's' => Act::Substitute(self.substitution()?),
                'd' => Act::Delete,
                'p' => Act::Print,
                '=' | 'n' | 'N' | 'D' | 'P' | 'h' | 'H' | 'g' | 'G' | 'x' => Act::Other,
                'q' | 'Q' => {
                    self.blanks();
                    self.number();
                    Act::Other
                }
                '{' => {
                    groups += 1;
                    steps.push(Step { from, to, negated, act: Act::Other });
                    continue;
                }
                _ => return None,
            };
            steps.push(Step { from, to, negated, act });
            self.blanks();
            if !matches!(self.peek(), None | Some(';' | '\n' | '}')) {
                return None;
            }
        }
    }

    fn addresses(&mut self) -> Option<(Option<Address>, Option<Address>)> {
        let Some(from) = self.address()? else { return Some((None, None)) };
        self.blanks();
        if !self.take(',') {
            return Some((Some(from), None));
        }
        self.blanks();
        let to = self.address()??;
        Some((Some(from), Some(to)))
    }

    /// None if it is wrong, `Some(None)` if there is none.
    #[expect(clippy::option_option, reason = "wrong and absent are two things")]
    fn address(&mut self) -> Option<Option<Address>> {
        match self.peek() {
            Some('0'..='9') => match self.number()? {
                0 => None,
                line => Some(Some(Address::Line(line))),
            },
            Some('$') => {
                self.next();
                Some(Some(Address::Last))
            }
            Some('/') => {
                self.next();
                let pattern = self.until('/', Part::Pattern)?;
                (!pattern.is_empty()).then_some(Some(Address::Pattern(pattern)))
            }
            _ => Some(None),
        }
    }

    fn number(&mut self) -> Option<usize> {
        let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at_checked(end)?;
        self.rest = rest;
        digits.parse().ok()
    }

    fn substitution(&mut self) -> Option<Substitution> {
        let delimiter = self.next()?;
        if !delimiter.is_ascii_punctuation() || delimiter == '\\' {
            return None;
        }
        let pattern = self.until(delimiter, Part::Pattern)?;
        let replacement = self.until(delimiter, Part::Replacement)?;
        let mut found = Substitution {
            pattern,
            replacement,
            all: false,
            nth: None,
            print: false,
            any_case: false,
            multiline: false,
        };
        loop {
            match self.peek() {
                // What is said twice, sed refuses.
                Some('g') if !found.all => found.all = true,
                Some('p') if !found.print => found.print = true,
                Some('g' | 'p') => return None,
                Some('i' | 'I') => found.any_case = true,
                Some('m' | 'M') => found.multiline = true,
                Some('1'..='9') => {
                    found.nth = Some(self.number()?);
                    continue;
                }
                _ => return (!found.pattern.is_empty()).then_some(found),
            }
            self.next();
        }
    }

    /// Text up to a delimiter. A delimiter in brackets, or an escaped one that could mean something, is refused.
    fn until(&mut self, delimiter: char, part: Part) -> Option<String> {
        let mut text = String::new();
        loop {
            match self.next()? {
                c if c == delimiter => break,
                '\n' => return None,
                '\\' => match self.next()? {
                    '\n' => return None,
                    c if c == delimiter => {
                        if ".*[]^$+?(){}|&".contains(delimiter) {
                            return None;
                        }
                        text.push(delimiter);
                    }
                    c => text.extend(['\\', c]),
                },
                c => text.push(c),
            }
        }
        (part == Part::Replacement || brackets_are_closed(&text)).then_some(text)
    }
}

/// Whether no bracket is open at the end, where a delimiter was found that may have been a part of it.
fn brackets_are_closed(pattern: &str) -> bool {
    let mut rest = pattern;
    while let Some(at) = rest.find(['\\', '[']) {
        let escaped = rest.as_bytes().get(at) == Some(&b'\\');
        rest = rest.get(at + 1..).unwrap_or_default();
        if escaped {
            let mut chars = rest.chars();
            chars.next();
            rest = chars.as_str();
            continue;
        }
        rest = rest.strip_prefix('^').unwrap_or(rest);
        // A bracket that comes first belongs to the set; that is more than is needed here.
        if rest.starts_with(']') {
            return false;
        }
        while let Some(class) = rest.find(['[', ']']).filter(|at| rest.as_bytes().get(*at) == Some(&b'[')) {
            let inner = rest.get(class + 1..).unwrap_or_default();
            if !inner.starts_with(':') {
                return false;
            }
            let Some(end) = inner.find(":]") else { return false };
            rest = inner.get(end + 2..).unwrap_or_default();
        }
        match rest.find(']') {
            Some(end) => rest = rest.get(end + 1..).unwrap_or_default(),
            None => return false,
        }
    }
    true
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Pattern,
    Replacement,
}
