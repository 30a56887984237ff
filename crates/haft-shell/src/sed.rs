//! Parses sed's command line and scripts: `s`, `d`, `p` and a few more commands with addresses. Refuses everything that
//! could run or write something, and every ambiguous syntax.

use super::{Command, Doubt, Word};

/// A parsed sed command line.
#[derive(Debug, Default)]
pub(super) struct Call {
    pub(super) quiet: bool,
    pub(super) extended: bool,
    /// `-z`: lines end with NUL.
    pub(super) null_data: bool,
    /// `-i`, with the suffix of the backup file; empty for no backup.
    pub(super) in_place: Option<String>,
    pub(super) steps: Vec<Step>,
    pub(super) files: Vec<String>,
}

/// A command of the script, with its addresses.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) from: Option<Address>,
    pub(super) to: Option<Address>,
    pub(super) negated: bool,
    pub(super) action: Action,
}

#[derive(Debug)]
pub(super) enum Address {
    Line(usize),
    Last,
    Pattern(String),
}

#[derive(Debug)]
pub(super) enum Action {
    Substitute(Substitution),
    Delete,
    Print,
    /// Any other command that neither writes nor runs anything.
    Other,
}

#[derive(Debug)]
pub(super) struct Substitution {
    pub(super) pattern: String,
    pub(super) replacement: String,
    pub(super) all: bool,
    pub(super) nth: Option<usize>,
    pub(super) print: bool,
    pub(super) ignore_case: bool,
    /// Whether `^` and `$` also match within the pattern space.
    pub(super) multiline: bool,
}

/// Checks that a sed command only prints.
pub(super) fn read_only(command: &Command) -> Result<(), String> {
    match call(command) {
        Some(call) if call.in_place.is_none() => Ok(()),
        Some(_) => Err("`sed -i` changes files".to_owned()),
        None => Err("the sed script is not known to only print".to_owned()),
    }
}

/// Whether a sed command may run programs: with the command `e`, or the flag `e` of `s`.
pub(super) fn may_run(command: &Command) -> bool {
    if call(command).is_some() || command.args().any(|arg| arg == "--sandbox") {
        return false;
    }
    let substitutes = |word: &Word| word.doubt() == Some(&Doubt::Substitution);
    command.argv.iter().skip(1).any(|word| substitutes(word) || may_contain_e(word.text()))
        || command.code.iter().any(|script| may_contain_e(script))
}

/// Whether an `e` in a text is at a place where it may be a command or a flag.
fn may_contain_e(script: &str) -> bool {
    let text = script.strip_prefix("-e").or_else(|| script.strip_prefix("--expression=")).unwrap_or(script);
    if text.starts_with('-') {
        return false;
    }
    let before = |c: char| !c.is_alphabetic() || "gpiImMe".contains(c);
    let after = |c: char| c.is_whitespace() || c.is_ascii_digit() || ";}#gpiImMwe".contains(c);
    let chars: Vec<char> = text.chars().collect();
    let flags = |at: usize| {
        // The letters in front of it must all be flags, up to a delimiter.
        let letters = chars.iter().take(at).rev().take_while(|c| c.is_alphanumeric());
        let mut letters = letters.peekable();
        letters.peek().is_none() || letters.all(|c| before(*c))
    };
    chars
        .iter()
        .enumerate()
        .any(|(at, c)| *c == 'e' && chars.get(at + 1).is_none_or(|c| after(*c)) && flags(at))
}

/// Parses a sed command; `None` if it is refused.
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
                        'z' => call.null_data = true,
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
        ScriptParser { rest: script }.script(&mut call.steps)?;
    }
    call.files = words.into_iter().map(|word| literal(word).map(str::to_owned)).collect::<Option<_>>()?;
    Some(call)
}

fn literal(word: &Word) -> Option<&str> {
    word.is_literal().then(|| word.text())
}

struct ScriptParser<'a> {
    rest: &'a str,
}

impl ScriptParser<'_> {
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
            let action = match self.next()? {
                's' => Action::Substitute(self.substitution()?),
                'd' => Action::Delete,
                'p' => Action::Print,
                '=' | 'n' | 'N' | 'D' | 'P' | 'h' | 'H' | 'g' | 'G' | 'x' => Action::Other,
                'q' | 'Q' => {
                    self.blanks();
                    self.number();
                    Action::Other
                }
                '{' => {
                    groups += 1;
                    steps.push(Step { from, to, negated, action: Action::Other });
                    continue;
                }
                _ => return None,
            };
            steps.push(Step { from, to, negated, action });
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

    /// Parses an address: `None` if it is refused, `Some(None)` if there is none.
    #[expect(clippy::option_option, reason = "refused and absent are two things")]
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
            ignore_case: false,
            multiline: false,
        };
        loop {
            match self.peek() {
                // sed rejects a repeated flag.
                Some('g') if !found.all => found.all = true,
                Some('p') if !found.print => found.print = true,
                Some('g' | 'p') => return None,
                Some('i' | 'I') => found.ignore_case = true,
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

    /// Reads text up to a delimiter. Refuses a delimiter in brackets, and an escaped one that is also an operator.
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

/// Whether all bracket expressions are closed. An open one means that the delimiter behind it may be part of it.
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
        // A `]` that comes first belongs to the set; that form is refused.
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

/// The part of an `s` command or an address that is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Pattern,
    Replacement,
}
