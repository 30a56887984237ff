//! Search patterns, and compiling them: with the `regex` engine, or with PCRE2 where that is built in and the pattern
//! needs it. Knows nothing of files.

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use haft_core::{Fault, FaultKind};
use parking_lot::Mutex;

/// Maximum length of a pattern in bytes.
const MAX_PATTERN: usize = 64 << 10;
/// Characters of a pattern that an error message shows.
const MAX_SHOWN: usize = 500;
/// Maximum size in bytes of a compiled pattern.
const MAX_COMPILED: usize = 10 << 20;
/// Size in bytes of the lazy DFA's cache, per thread.
const DFA_CACHE: usize = 8 << 20;
/// Number of compiled patterns in the cache: models search for the same pattern in several places.
const CACHE_CAPACITY: usize = 16;

/// A search pattern.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    /// The text of the pattern.
    pub text: String,
    /// Whether the text is a regular expression or a literal.
    pub syntax: Syntax,
    /// Case sensitivity.
    pub case: Case,
    /// Whether only whole words match.
    pub bounds: Bounds,
    /// Whether a match may span several lines.
    pub span: Span,
    /// The option that lets it match over several lines, for a hint; none where there is no such option.
    pub span_option: Option<&'static str>,
}

/// Syntax of a search pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Syntax {
    /// A regular expression.
    Regex,
    /// A literal string.
    Literal,
}

/// Case sensitivity of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Case {
    /// Upper and lower case differ.
    Sensitive,
    /// Upper and lower case are equal.
    Insensitive,
}

/// Word boundaries of a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bounds {
    /// A match may be part of a word.
    Anywhere,
    /// A match consists of whole words.
    Words,
}

/// Whether a match may span several lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Span {
    /// A match lies within one line.
    Line,
    /// A match may span several lines, and `.` matches a line terminator.
    Lines,
}

/// A compiled pattern.
#[derive(Clone, Debug)]
pub(super) enum Compiled {
    Regex(RegexMatcher),
    /// Compiled by PCRE2.
    #[cfg(feature = "pcre2")]
    Perl(grep_pcre2::RegexMatcher),
}

impl Pattern {
    /// The compiled pattern, from the cache or compiled now.
    pub(super) fn compiled(&self) -> Result<Compiled, Fault> {
        // Least recently used first.
        static CACHE: Mutex<Vec<(Pattern, Compiled)>> = Mutex::new(Vec::new());
        let mut cache = CACHE.lock();
        if let Some(at) = cache.iter().position(|(pattern, _)| pattern == self) {
            let known = cache.remove(at);
            let compiled = known.1.clone();
            cache.push(known);
            return Ok(compiled);
        }
        let compiled = self.compile()?;
        if cache.len() >= CACHE_CAPACITY {
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
            .dfa_size_limit(DFA_CACHE);
        match self.span {
            // With `crlf`, a carriage return before a newline is part of the terminator and never matches, unless the
            // pattern names it.
            Span::Line if self.names_return() => builder.line_terminator(Some(b'\n')),
            Span::Line => &mut builder,
            Span::Lines => builder.line_terminator(None).dot_matches_new_line(true),
        };
        // A literal newline compiles, but no single line can match it.
        let literal = self.syntax == Syntax::Literal && self.span == Span::Line && self.text.contains('\n');
        match builder.build(&self.text) {
            Ok(matcher) if !literal => Ok(Compiled::Regex(matcher)),
            Ok(_) => Err(self.over_lines()),
            Err(error) => self.perl().unwrap_or_else(|| Err(self.fault(&error.to_string()))),
        }
    }

    /// Whether the pattern names a carriage return (heuristic: any code point in braces counts).
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

    /// Compiles a pattern with look-around or back-references with PCRE2; `None` for other patterns.
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

    /// The fault for a pattern that does not compile.
    fn fault(&self, error: &str) -> Fault {
        if error.contains("\\n") && error.contains("not allowed") {
            return self.over_lines();
        }
        // The matcher wraps the pattern before it compiles it, and its error quotes the wrapped one. Parsing again
        // gives an error about the pattern as written.
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

/// Whether a pattern uses syntax that only Perl-compatible engines support (heuristic).
fn is_perl(pattern: &str) -> bool {
    let groups = ["(?=", "(?!", "(?<=", "(?<!", "(?>", "(?R", "(?|", "\\K", "\\G"];
    let digit_after = |mark: &str| {
        pattern
            .match_indices(mark)
            .any(|(at, _)| pattern[at + mark.len()..].starts_with(|c: char| c.is_ascii_digit()))
    };
    groups.iter().any(|group| pattern.contains(group)) || digit_after("\\") || pattern.contains("\\k<")
}
