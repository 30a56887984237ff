//! What is searched for, made ready to search with.

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use haft_core::{Fault, FaultKind};
use parking_lot::Mutex;

/// A longer pattern is not taken.
const MAX_PATTERN: usize = 64 << 10;
/// So many characters of a pattern are shown when it cannot be read.
const MAX_SHOWN: usize = 500;
/// A pattern that takes more than this when it is compiled is refused.
const MAX_COMPILED: usize = 10 << 20;
/// What each thread may use to search faster.
const MAX_CACHED: usize = 8 << 20;
/// So many patterns are kept compiled: models search for the same thing in several places.
const KEPT: usize = 16;

/// What is searched for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    /// The pattern.
    pub text: String,
    /// How it is written.
    pub syntax: Syntax,
    /// Whether capital and small letters differ.
    pub case: Case,
    /// Where it may match.
    pub bounds: Bounds,
    /// Over how many lines it may match.
    pub span: Span,
    /// The option that lets it match over several lines, for a hint; none where there is no such option.
    pub span_option: Option<&'static str>,
}

/// How a pattern is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Syntax {
    /// As a regular expression.
    Regex,
    /// As the text itself.
    Literal,
}

/// Whether capital and small letters differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Case {
    /// They do.
    Sensitive,
    /// They do not.
    Insensitive,
}

/// Where a pattern may match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bounds {
    /// Anywhere.
    Anywhere,
    /// Only whole words.
    Words,
}

/// Over how many lines a pattern may match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Span {
    /// Within one.
    Line,
    /// Over several, and `.` matches a line end.
    Lines,
}

/// A pattern that is ready to search with.
#[derive(Clone, Debug)]
pub(super) enum Compiled {
    Regex(RegexMatcher),
    #[cfg(feature = "pcre2")]
    Perl(grep_pcre2::RegexMatcher),
}

impl Pattern {
    /// Makes it ready to search with.
    pub(super) fn compiled(&self) -> Result<Compiled, Fault> {
        static CACHE: Mutex<Vec<(Pattern, Compiled)>> = Mutex::new(Vec::new());
        let mut cache = CACHE.lock();
        if let Some(at) = cache.iter().position(|(pattern, _)| pattern == self) {
            let known = cache.remove(at);
            let compiled = known.1.clone();
            cache.push(known);
            return Ok(compiled);
        }
        let compiled = self.compile()?;
        if cache.len() >= KEPT {
            cache.remove(0);
        }
        cache.push((self.clone(), compiled.clone()));
        Ok(compiled)
    }

    fn compile(&self) -> Result<Compiled, Fault> {
        if self.text.is_empty() {
            return Err(Fault::invalid("the pattern is empty")
                .hint("say what to search for; `.` matches any character"));
        }
        if self.text.len() > MAX_PATTERN {
            return Err(Fault::invalid(format!(
                "the pattern has {} bytes; at most {MAX_PATTERN} are taken",
                self.text.len()
            ))
            .hint("search for a part of it"));
        }
        if self.text.contains('\0') {
            return Err(Fault::invalid("the pattern contains a NUL character, which no text file has"));
        }
        let mut builder = RegexMatcherBuilder::new();
        builder
            .case_insensitive(self.case == Case::Insensitive)
            .word(self.bounds == Bounds::Words)
            .fixed_strings(self.syntax == Syntax::Literal)
            .multi_line(true)
            .crlf(true)
            .size_limit(MAX_COMPILED)
            .dfa_size_limit(MAX_CACHED);
        match self.span {
            // What belongs to the end of a line is no part of it, unless it is asked for.
            Span::Line if self.names_return() => builder.line_terminator(Some(b'\n')),
            Span::Line => &mut builder,
            Span::Lines => builder.line_terminator(None).dot_matches_new_line(true),
        };
        let literal = self.syntax == Syntax::Literal && self.span == Span::Line && self.text.contains('\n');
        match builder.build(&self.text) {
            Ok(matcher) if !literal => Ok(Compiled::Regex(matcher)),
            Ok(_) => Err(self.over_lines()),
            Err(error) => self.perl().unwrap_or_else(|| Err(self.fault(&error.to_string()))),
        }
    }

    fn names_return(&self) -> bool {
        let escapes = ["\\r", "\\x0d", "\\x0D", "\\x{"];
        self.text.contains('\r') || escapes.iter().any(|escape| self.text.contains(escape))
    }

    fn over_lines(&self) -> Fault {
        let pattern = &self.text;
        let hint = match self.span_option {
            Some(option) => format!("set `{option}` to search over several lines, or search for one of them"),
            None => "search for one of the lines".to_owned(),
        };
        Fault::invalid(format!("`{pattern}` has a line end in it, but is searched for line by line"))
            .hint(hint)
            .with("pattern", pattern)
    }

    /// The pattern as Perl would read it, where that is built in and it needs it.
    #[cfg(feature = "pcre2")]
    fn perl(&self) -> Option<Result<Compiled, Fault>> {
        if !is_perl(&self.text) {
            return None;
        }
        let mut builder = grep_pcre2::RegexMatcherBuilder::new();
        builder
            .caseless(self.case == Case::Insensitive)
            .word(self.bounds == Bounds::Words)
            .multi_line(true)
            .crlf(true)
            .dotall(self.span == Span::Lines)
            .utf(true)
            .ucp(true)
            .jit_if_available(true);
        let built = builder.build(&self.text);
        Some(built.map(Compiled::Perl).map_err(|error| self.fault(&error.to_string())))
    }

    #[cfg(not(feature = "pcre2"))]
    fn perl(&self) -> Option<Result<Compiled, Fault>> {
        None
    }

    fn fault(&self, error: &str) -> Fault {
        if error.contains("\\n") && error.contains("not allowed") {
            return self.over_lines();
        }
        // The error tells of the pattern as it is wrapped for the search; this one of what was written.
        let error = match regex_syntax::ast::parse::Parser::new().parse(&self.text) {
            Err(error) => format!("{}, at character {}", error.kind(), error.span().start.column),
            Ok(_) => error.trim().to_owned(),
        };
        let shown = match self.text.char_indices().nth(MAX_SHOWN) {
            Some((end, _)) => format!("{}…", &self.text[..end]),
            None => self.text.clone(),
        };
        let fault =
            Fault::new(FaultKind::InvalidInput, format!("`{shown}` is no valid regular expression: {error}"))
                .with("pattern", &shown);
        if error.contains("size limit") || error.contains("exceeds") {
            return fault.hint("use fewer or smaller repetitions");
        }
        if self.text.contains("\\Z") {
            return fault.hint("`$` is the end of a line, and `\\z` the end of the text");
        }
        if is_perl(&self.text) {
            return fault.hint(
                "look-around and references to groups are not known here: search for something wider and look at what comes out",
            );
        }
        fault
            .hint("put a backslash before characters that stand for themselves: . * + ? ( ) [ ] { } | ^ $ \\")
    }
}

/// Whether a pattern has what only Perl and its kin know.
fn is_perl(pattern: &str) -> bool {
    let groups = ["(?=", "(?!", "(?<=", "(?<!", "(?>", "(?R", "(?|", "\\K", "\\G"];
    let digit_after = |mark: &str| {
        pattern
            .match_indices(mark)
            .any(|(at, _)| pattern[at + mark.len()..].starts_with(|c: char| c.is_ascii_digit()))
    };
    groups.iter().any(|group| pattern.contains(group)) || digit_after("\\") || pattern.contains("\\k<")
}
