//! One word of a command: its text if it is literal, and otherwise the reason why it is not. Expands nothing.

use brush_parser::ParserOptions;
use brush_parser::word::{ParameterExpr, WordPiece, WordPieceWithSource};

use super::Doubt;

/// Most substitutions in one word that are parsed: the word parser takes exponential time on unbalanced text.
const MAX_OPENINGS: usize = 8;

/// A word of a command, with and without its quotes.
#[derive(Debug, Clone, Default)]
pub struct Word {
    raw: String,
    text: Option<String>,
    doubt: Option<Doubt>,
    /// The variables in it, if it has nothing else that the shell puts in; otherwise empty.
    variables: Vec<String>,
}

impl Word {
    /// Parses a word as the shell would.
    pub(super) fn read(raw: &str) -> Self {
        if raw.bytes().all(|c| c.is_ascii_alphanumeric() || b"-_./:,+%@^=".contains(&c)) {
            return Self { raw: raw.to_owned(), ..Self::default() };
        }
        let (text, doubt) = unquote(raw);
        Self { raw: raw.to_owned(), text: Some(text), doubt, ..Self::default() }
    }

    /// A literal word with this text.
    pub(super) fn literal(text: &str) -> Self {
        Self { raw: text.to_owned(), text: Some(text.to_owned()), ..Self::default() }
    }

    pub(super) fn doubtful(raw: &str, doubt: Doubt) -> Self {
        Self { raw: raw.to_owned(), doubt: Some(doubt), ..Self::default() }
    }

    pub(super) fn with_variables(self, variables: Vec<String>) -> Self {
        Self { variables, ..self }
    }

    /// The variables whose values are put into the word; empty if there are none, or if something else is put into it, too.
    pub(super) fn variables(&self) -> &[String] {
        &self.variables
    }

    /// Whether the shell makes exactly one word of it: everything that is put into it is in double quotes.
    pub(super) fn is_one_word(&self) -> bool {
        let inner = self.raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        self.is_literal() || inner.is_some_and(|inner| !inner.contains(['"', '\\']))
    }

    /// The source text, with quotes.
    pub fn raw(&self) -> &str {
        &self.raw
    }

    /// The text without quotes. Expansions stay as in the source.
    pub fn text(&self) -> &str {
        self.text.as_deref().unwrap_or(&self.raw)
    }

    /// Whether the program gets exactly [`text`](Self::text).
    pub fn is_literal(&self) -> bool {
        self.doubt.is_none()
    }

    /// The reason why the word is not literal.
    pub fn doubt(&self) -> Option<&Doubt> {
        self.doubt.as_ref()
    }
}

/// Removes quotes, and returns the first expansion that the shell would perform on the word.
fn unquote(raw: &str) -> (String, Option<Doubt>) {
    let mut text = String::with_capacity(raw.len());
    let mut doubt = None;
    let mut chars = raw.chars().peekable();
    let mut before = None;
    while let Some(c) = chars.next() {
        match c {
            '\'' => text.extend(chars.by_ref().take_while(|c| *c != '\'')),
            '"' => {
                if let Some(found) = double_quoted(&mut chars, &mut text) {
                    record(&mut doubt, found);
                }
            }
            '\\' => {
                record(&mut doubt, Doubt::Backslash);
                text.extend(chars.next());
            }
            '$' => match chars.peek() {
                Some('\'') => {
                    record(&mut doubt, Doubt::Quoting);
                    chars.next();
                    ansi_quoted(&mut chars, &mut text);
                }
                Some('"') => {
                    record(&mut doubt, Doubt::Quoting);
                }
                next => {
                    record(&mut doubt, dollar(next.copied()));
                    text.push('$');
                }
            },
            '`' => {
                record(&mut doubt, Doubt::Substitution);
                text.push('`');
            }
            '[' if !chars.clone().any(|c| c == ']') => text.push('['),
            '*' | '?' | '[' | '(' => {
                record(&mut doubt, Doubt::Glob);
                text.push(c);
            }
            '{' if chars.peek() == Some(&'}') => {
                chars.next();
                text.push_str("{}");
            }
            '{' => {
                record(&mut doubt, Doubt::Brace);
                text.push('{');
            }
            '~' if matches!(before, None | Some('=' | ':')) => {
                record(&mut doubt, Doubt::Tilde);
                text.push('~');
            }
            _ => text.push(c),
        }
        before = Some(c);
    }
    (text, doubt)
}

/// Records a doubt. Any other doubt replaces `Glob`, since some checks accept words whose only doubt is a glob.
fn record(doubt: &mut Option<Doubt>, found: Doubt) {
    if matches!(doubt, None | Some(Doubt::Glob)) {
        *doubt = Some(found);
    }
}

fn dollar(next: Option<char>) -> Doubt {
    match next {
        Some('(') => Doubt::Substitution,
        Some('[') => Doubt::Arithmetic,
        _ => Doubt::Expansion,
    }
}

fn double_quoted(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, text: &mut String) -> Option<Doubt> {
    let mut doubt = None;
    while let Some(c) = chars.next() {
        match c {
            '"' => break,
            '\\' => match chars.next() {
                Some('\n') => {}
                Some(c @ ('$' | '`' | '"' | '\\')) => text.push(c),
                Some(c) => text.extend(['\\', c]),
                None => text.push('\\'),
            },
            // A lone dollar stays one; anything after it is left to the shell.
            '$' if matches!(chars.peek(), Some('"' | ' ') | None) => text.push('$'),
            '$' => {
                doubt.get_or_insert(dollar(chars.peek().copied()));
                text.push('$');
            }
            '`' => {
                doubt.get_or_insert(Doubt::Substitution);
                text.push('`');
            }
            _ => text.push(c),
        }
    }
    doubt
}

/// Decodes `$'…'`. Only checks that deny use the result: such a word always has a doubt.
fn ansi_quoted(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, text: &mut String) {
    while let Some(c) = chars.next() {
        match c {
            '\'' => break,
            '\\' => match chars.next() {
                Some('n') => text.push('\n'),
                Some('t') => text.push('\t'),
                Some('x') => text.extend(number(chars, 16, 2)),
                Some('u') => text.extend(number(chars, 16, 4)),
                Some('U') => text.extend(number(chars, 16, 8)),
                Some(digit @ '0'..='7') => {
                    let first = digit.to_digit(8).unwrap_or(0);
                    let rest = digits(chars, 8, 2);
                    let value = rest.iter().fold(first, |value, digit| value * 8 + digit);
                    text.extend(char::from_u32(value & 0xff));
                }
                Some(c) => text.push(c),
                None => {}
            },
            _ => text.push(c),
        }
    }
}

fn digits(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, base: u32, max: usize) -> Vec<u32> {
    let mut found = Vec::new();
    while found.len() < max
        && let Some(digit) = chars.peek().and_then(|c| c.to_digit(base))
    {
        chars.next();
        found.push(digit);
    }
    found
}

fn number(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, base: u32, max: usize) -> Option<char> {
    let digits = digits(chars, base, max);
    char::from_u32(digits.iter().fold(0_u32, |value, digit| value.wrapping_mul(base).wrapping_add(*digit)))
}

/// The variables that are put into a word; `None` if the shell does more to expand it than to look up values, such as to
/// evaluate one as arithmetic (`${x:n}`), as another name (`${!x}`), or to assign (`${x:=y}`).
pub(super) fn variables(raw: &str, options: &ParserOptions) -> Option<Vec<String>> {
    let mut found = Vec::new();
    let pieces = brush_parser::word::parse(raw, options).ok()?;
    collect_variables(&pieces, &mut found).then_some(found)
}

fn collect_variables(pieces: &[WordPieceWithSource], found: &mut Vec<String>) -> bool {
    use ParameterExpr as E;
    use brush_parser::word::Parameter::Named;
    pieces.iter().all(|piece| match &piece.piece {
        WordPiece::Text(text) => !text.contains(['$', '`']),
        WordPiece::SingleQuotedText(_) | WordPiece::EscapeSequence(_) => true,
        WordPiece::DoubleQuotedSequence(inner) => collect_variables(inner, found),
        WordPiece::ParameterExpansion(expansion) => match expansion {
            E::Parameter { parameter: Named(name), indirect: false }
            | E::ParameterLength { parameter: Named(name), indirect: false } => {
                found.push(name.clone());
                true
            }
            E::RemoveSmallestSuffixPattern { parameter: Named(name), indirect: false, pattern }
            | E::RemoveLargestSuffixPattern { parameter: Named(name), indirect: false, pattern }
            | E::RemoveSmallestPrefixPattern { parameter: Named(name), indirect: false, pattern }
            | E::RemoveLargestPrefixPattern { parameter: Named(name), indirect: false, pattern } => {
                found.push(name.clone());
                pattern.as_ref().is_none_or(|pattern| !pattern.contains(['$', '`']))
            }
            _ => false,
        },
        _ => false,
    })
}

/// The scripts of the command substitutions in a word; `None` if they cannot be determined for certain.
pub(super) fn scripts(raw: &str, options: &ParserOptions, quoting: Quoting) -> Option<Vec<String>> {
    let openings = raw.bytes().filter(|c| matches!(c, b'$' | b'`')).count();
    if openings == 0 {
        return Some(Vec::new());
    }
    if openings > MAX_OPENINGS {
        return None;
    }
    let mut found = Vec::new();
    collect_scripts(raw, options, quoting, 0, &mut found).then_some(found)
}

/// Whether a single quote is a quote or an ordinary character.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Quoting {
    /// Outside of double quotes: single quotes quote.
    Unquoted,
    /// Within double quotes and here-documents: single quotes are ordinary characters.
    DoubleQuoted,
}

fn collect_scripts(
    raw: &str,
    options: &ParserOptions,
    quoting: Quoting,
    depth: usize,
    found: &mut Vec<String>,
) -> bool {
    if depth > MAX_OPENINGS {
        return false;
    }
    let pieces = match quoting {
        Quoting::Unquoted => brush_parser::word::parse(raw, options),
        Quoting::DoubleQuoted => brush_parser::word::parse_heredoc(raw, options),
    };
    pieces.is_ok_and(|pieces| collect_from_pieces(&pieces, options, quoting, depth, found))
}

fn collect_from_pieces(
    pieces: &[WordPieceWithSource],
    options: &ParserOptions,
    quoting: Quoting,
    depth: usize,
    found: &mut Vec<String>,
) -> bool {
    pieces.iter().all(|piece| match &piece.piece {
        WordPiece::Text(_)
        | WordPiece::SingleQuotedText(_)
        | WordPiece::AnsiCQuotedText(_)
        | WordPiece::TildeExpansion(_)
        | WordPiece::EscapeSequence(_) => true,
        WordPiece::DoubleQuotedSequence(inner) | WordPiece::GettextDoubleQuotedSequence(inner) => {
            collect_from_pieces(inner, options, Quoting::DoubleQuoted, depth, found)
        }
        WordPiece::CommandSubstitution(script) => {
            found.push(script.clone());
            true
        }
        WordPiece::BackquotedCommandSubstitution(script) => {
            found.push(unescape_backquoted(script));
            true
        }
        // `$((a) | (b))` is a command substitution that begins with a subshell, but the parser may report it as
        // arithmetic; its brackets are then unbalanced.
        WordPiece::ArithmeticExpression(sum) => {
            is_balanced(&sum.value)
                && collect_scripts(&sum.value, options, Quoting::DoubleQuoted, depth + 1, found)
        }
        WordPiece::ParameterExpansion(parameter) => match inner_words(parameter) {
            Some(words) => words.into_iter().all(|word| {
                !word.contains(['$', '`', '[']) || collect_scripts(word, options, quoting, depth + 1, found)
            }),
            None => false,
        },
    })
}

/// The words within `${…}`; `None` for forms that evaluate the variable's value, such as `${!x}`.
fn inner_words(parameter: &ParameterExpr) -> Option<Vec<&str>> {
    use ParameterExpr as E;
    use brush_parser::word::Parameter::NamedWithIndex;
    let (of, word) = match parameter {
        E::Parameter { parameter, indirect: false } | E::ParameterLength { parameter, indirect: false } => {
            (parameter, None)
        }
        E::UseDefaultValues { parameter, default_value: word, .. }
        | E::AssignDefaultValues { parameter, default_value: word, .. }
        | E::IndicateErrorIfNullOrUnset { parameter, error_message: word, .. }
        | E::UseAlternativeValue { parameter, alternative_value: word, .. }
        | E::RemoveSmallestSuffixPattern { parameter, pattern: word, .. }
        | E::RemoveLargestSuffixPattern { parameter, pattern: word, .. }
        | E::RemoveSmallestPrefixPattern { parameter, pattern: word, .. }
        | E::RemoveLargestPrefixPattern { parameter, pattern: word, .. } => (parameter, word.as_deref()),
        _ => return None,
    };
    let index = if let NamedWithIndex { index, .. } = of { Some(index.as_str()) } else { None };
    Some(word.into_iter().chain(index).collect())
}

fn is_balanced(text: &str) -> bool {
    let mut depth = 0_i32;
    text.bytes().all(|c| {
        depth += i32::from(c == b'(') - i32::from(c == b')');
        depth >= 0
    }) && depth == 0
}

/// Removes one level of backslashes from a script in backquotes, as the shell does before it runs the script.
fn unescape_backquoted(script: &str) -> String {
    let mut text = String::with_capacity(script.len());
    let mut chars = script.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('\\', Some(next @ ('`' | '\\' | '$'))) => {
                text.push(*next);
                chars.next();
            }
            _ => text.push(c),
        }
    }
    text
}
