//! Rust, by the parser of rust-analyzer: it reads on after an error, so all errors of a text are known. Of
//! unbalanced delimiters it says nothing of use, so those are looked for here.

use ra_ap_parser::{Edition, LexedStr, Output, Step, StrStep, TopEntryPoint};

use super::balance::unbalanced;
use super::depth::{Ends, too_long};
use super::scan::{Lexis, delimiters};
use super::statements::{Parsed, Statements};
use super::{Checker, MAX_PROBLEMS, Places, Problem, worded};

/// Rust of any edition.
pub(super) struct Rust;

/// The parser's names for tokens that have no letters.
const SIGNS: &[(&str, &str)] = &[
    ("SEMICOLON", ";"),
    ("COMMA", ","),
    ("COLON", ":"),
    ("L_PAREN", "("),
    ("R_PAREN", ")"),
    ("L_CURLY", "{"),
    ("R_CURLY", "}"),
    ("L_BRACK", "["),
    ("R_BRACK", "]"),
    ("L_ANGLE", "<"),
    ("R_ANGLE", ">"),
    ("FAT_ARROW", "=>"),
    ("THIN_ARROW", "->"),
    ("EQ", "="),
    ("BANG", "!"),
    ("PIPE", "|"),
    ("STAR", "*"),
];

impl Checker for Rust {
    fn name(&self) -> &'static str {
        "rust"
    }

    fn can_leave_out_parts(&self) -> bool {
        true
    }

    fn check(&self, text: &str) -> Option<Vec<Problem>> {
        Some(self.parse(text)?.problems)
    }
}

impl Statements for Rust {
    fn parse(&self, text: &str) -> Option<Parsed> {
        if too_long(text, Ends::Semicolons) {
            return None;
        }
        let lexed = LexedStr::new(Edition::CURRENT, text);
        let parsed = TopEntryPoint::SourceFile.parse(&lexed.to_input(Edition::CURRENT));
        if let Some(statements) = items(&lexed, &parsed) {
            return Some(Parsed::right(statements));
        }
        let mut problems = errors(text, &lexed, &parsed);
        // The parser takes the name of this macro for the word before a function.
        if text.lines().any(|line| line.trim_start().starts_with("safe!")) {
            return None;
        }
        // After a bracket without a partner, the errors are echoes.
        if let Some(problem) = unbalanced(text, &delimiters(text, Lexis::Rust)) {
            return Some(Parsed::wrong(vec![problem]));
        }
        // The edition is not written in a file, and what is a word of the language in one is a name in another.
        for edition in [Edition::Edition2021, Edition::Edition2015] {
            let lexed = LexedStr::new(edition, text);
            let others = errors(text, &lexed, &TopEntryPoint::SourceFile.parse(&lexed.to_input(edition)));
            if others.len() < problems.len() {
                problems = others;
            }
        }
        Some(Parsed::wrong(problems))
    }
}

/// Where the items of a file begin; `None` if it has errors.
fn items(lexed: &LexedStr<'_>, parsed: &Output) -> Option<Vec<usize>> {
    if lexed.errors().next().is_some() {
        return None;
    }
    // The parser counts tokens without blanks and comments.
    let mut tokens = (0..lexed.len()).filter(|token| !lexed.kind(*token).is_trivia());
    let (mut starts, mut depth, mut begins) = (Vec::new(), 0_usize, false);
    for step in parsed.iter() {
        let taken = match step {
            Step::Error { .. } => return None,
            Step::Enter { .. } => {
                depth += 1;
                // The file is on the first level, what is in it on the second.
                begins |= depth == 2;
                continue;
            }
            Step::Exit => {
                depth -= 1;
                continue;
            }
            Step::Token { n_input_tokens, .. } => n_input_tokens,
            // A number that is two names with a dot between them (`a.0.1`), which also ends what is around it.
            Step::FloatSplit { ends_in_dot } => {
                depth -= if ends_in_dot { 1 } else { 2 };
                1
            }
        };
        let token = tokens.next()?;
        if std::mem::take(&mut begins) {
            starts.push(lexed.text_start(token));
        }
        for _ in 1..taken {
            tokens.next();
        }
    }
    Some(starts)
}

/// The first error of each line: the others on it are mostly its echoes.
fn errors(text: &str, lexed: &LexedStr<'_>, parsed: &Output) -> Vec<Problem> {
    let mut found: Vec<(usize, String)> =
        lexed.errors().map(|(token, message)| (lexed.text_start(token), worded(message))).collect();
    lexed.intersperse_trivia(parsed, &mut |step| {
        if let StrStep::Error { msg, pos } = step {
            found.push((pos, told(msg)));
        }
    });
    found.sort_by_key(|(at, _)| *at);
    let places = Places::new(text);
    let mut problems: Vec<Problem> =
        found.into_iter().map(|(at, message)| places.problem(text, at, message)).collect();
    problems.dedup_by_key(|problem| problem.line);
    problems.truncate(MAX_PROBLEMS);
    problems
}

/// The message, with tokens as they are written.
fn told(message: &str) -> String {
    let shouted =
        |word: &str| word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    let word = |word: &str| match SIGNS.iter().find(|(name, _)| *name == word) {
        Some((_, sign)) => format!("`{sign}`"),
        None if !shouted(word) => word.to_owned(),
        None => match word.strip_suffix("_KW") {
            Some(keyword) => format!("`{}`", keyword.to_lowercase()),
            None => word.to_lowercase().replace('_', " "),
        },
    };
    worded(&message.replace('\n', "; ").split(' ').map(word).collect::<Vec<_>>().join(" "))
}
