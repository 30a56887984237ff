//! `grep`: searches files, and replaces matches.

use haft_core::limits::Cut;
use haft_core::permissions::Approval;
use haft_core::{Category, Context, Fault, Reply, Sensitivity, Spec, Tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::glob::current_dir;
use super::{Success, shown_diff, success, with_notes};
use crate::searches;
use haft_ops::{
    self as ops, Bounds, Case, Filter, GrepResult, LineMode, Page, Pattern, Replaced, Sorting, Span, Stopped,
    Substitution, Sweep, Swept, Syntax,
};
use haft_text::MAX_REPLY_CHARS;

/// The default and the largest number of matches in a reply.
const DEFAULT_MATCHES: u64 = 50;
const MAX_MATCHES: u64 = 1000;
/// Lines are cut to this length.
const MAX_LINE_CHARS: usize = 500;
/// The longest reply, in characters.
const MAX_RESULT_CHARS: usize = 100_000;

/// Searches in files.
pub(crate) struct Grep;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// Regular expression
    #[schemars(example = &"class.*Test")]
    pattern: String,
    /// Directory or file to search
    #[serde(default = "current_dir")]
    #[schemars(length(min = 1))]
    path: String,
    /// File extensions, separated by commas
    #[serde(default)]
    #[schemars(example = &".py,.js")]
    file_types: String,
    /// Glob pattern of files to search
    #[serde(default = "all_extensions")]
    include: String,
    /// Glob pattern of files to leave out
    #[serde(default)]
    exclude: String,
    /// How many directories deep; -1 for all
    #[serde(default = "all_depths")]
    #[schemars(range(min = -1))]
    max_depth: i64,
    /// Whether capital and small letters differ
    #[serde(default)]
    case_sensitive: bool,
    /// Whether only whole words match
    #[serde(default)]
    whole_words: bool,
    /// How many matches to tell
    #[serde(default = "default_matches")]
    #[schemars(range(min = 1, max = 1000))]
    max_results: u64,
    /// How many matches to leave out, to go on where an earlier reply ended
    #[serde(default)]
    offset: u64,
    /// What every match is replaced by
    replace: Option<String>,
    /// Whether to show what would be replaced without changing anything
    #[serde(default)]
    preview_replace: bool,
    /// How many places must be found; otherwise nothing is replaced
    expected_count: Option<u64>,
}

fn all_extensions() -> String {
    "*".to_owned()
}

fn all_depths() -> i64 {
    -1
}

fn default_matches() -> u64 {
    DEFAULT_MATCHES
}

/// The reply of `grep`.
#[derive(Serialize, JsonSchema)]
struct Output {
    /// The matches
    matches: Vec<Match>,
    /// What was replaced in each file, or would be
    replacements: Vec<Replacement>,
    /// How many matches were found; there are more if the results are limited
    total_matches: u64,
    /// Whether there is more than is told
    limited_results: bool,
    /// How many files were searched
    files_searched: u64,
    /// The `offset` to go on with
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<u64>,
    /// The number to undo the replacement by
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_number: Option<u64>,
    /// What to try instead when nothing was found
    #[serde(skip_serializing_if = "Option::is_none")]
    suggestion: Option<String>,
}

/// A line that matches.
#[derive(Serialize, JsonSchema)]
struct Match {
    /// The file
    file: String,
    /// The number of the line
    line: u64,
    /// The line
    content: String,
}

/// What was replaced in a file.
#[derive(Serialize, JsonSchema)]
struct Replacement {
    /// The file
    file: String,
    /// At how many places
    count: u64,
    /// What changed; left out for further files once the reply is long
    #[serde(skip_serializing_if = "String::is_empty")]
    diff: String,
}

impl Tool for Grep {
    const NAME: &'static str = "grep";
    const DESCRIPTION: &'static str = include_str!("grep.md");
    type Input = Input;
    type Op = Sweep;

    fn spec(spec: Spec) -> Spec {
        let spec = spec.category(Category::File).sensitivity(Sensitivity::Sensitive);
        spec.max_result(MAX_RESULT_CHARS, Cut::Start).output::<Success<Output>>()
    }

    fn lower(input: &Input, cx: &Context) -> Result<Sweep, Fault> {
        let (place, _) = ops::existing(&input.path, &cx.cwd(), cx)?;
        let grep = ops::Grep {
            root: place.path,
            pattern: Pattern {
                text: input.pattern.clone(),
                syntax: Syntax::Regex,
                case: if input.case_sensitive { Case::Sensitive } else { Case::Insensitive },
                bounds: if input.whole_words { Bounds::Words } else { Bounds::Anywhere },
                span: Span::Line,
                span_option: None,
            },
            filter: Filter {
                globs: globs(input),
                extensions: extensions(&input.file_types),
                depth: usize::try_from(input.max_depth).ok().map(|depth| depth + 1),
                ..super::filter()
            },
            what: LineMode::Lines { before: 0, after: 0 },
            sorting: Sorting::Newest,
            page: Page {
                skip: input.offset,
                limit: Some(input.max_results.min(MAX_MATCHES)),
                // Escaping doubles quotes and backslashes in JSON.
                bytes: MAX_RESULT_CHARS / 2,
                each: 50,
                line_chars: MAX_LINE_CHARS,
            },
        };
        let substitution = match (&input.replace, input.preview_replace, input.expected_count) {
            (Some(with), only_shown, expected) => {
                Some(Substitution { with: with.clone(), expected, only_shown })
            }
            (None, false, None) => None,
            (None, ..) => {
                return Err(Fault::invalid(
                    "`preview_replace` and `expected_count` are for a `replace`, which is missing",
                )
                .hint("say what to `replace` with, or leave them out"));
            }
        };
        Ok(Sweep::new(grep, substitution))
    }

    fn approval(_input: &Input, op: &Sweep, _cx: &Context) -> Approval {
        match op.changes() {
            true => Approval::BySensitivity,
            false => Approval::NotNeeded,
        }
    }

    fn render(input: &Input, output: Swept, _cx: &Context) -> Result<Reply, Fault> {
        match output {
            Swept::Found(found) => Ok(matches_reply(input, found)),
            Swept::Replaced(replaced) => Ok(replaced_reply(replaced)),
        }
    }

    fn preview_use(input: &Input) -> Option<String> {
        let described = searches::describe(&input.pattern, Some(&input.path));
        Some(match &input.replace {
            Some(with) => format!("{described}, replaced by `{with}`"),
            None => described,
        })
    }
}

/// The globs of files to search, and those of files to exclude, with `!`.
fn globs(input: &Input) -> Vec<String> {
    let included = searches::globs(&input.include)
        .into_iter()
        .filter(|glob| !matches!(glob.as_str(), "*" | "**" | "*.*"));
    let excluded = searches::globs(&input.exclude).into_iter().map(|glob| format!("!{glob}"));
    included.chain(excluded).collect()
}

/// Parses a list of extensions: `.py`, `*.py` and `py` are the same, and `*` is all.
fn extensions(text: &str) -> Vec<String> {
    let names = searches::globs(text);
    if names.iter().any(|name| name == "*" || name == "*.*") {
        return Vec::new();
    }
    names.iter().map(|name| name.trim_start_matches('*').trim_start_matches('.').to_lowercase()).collect()
}

fn matches_reply(input: &Input, found: GrepResult) -> Reply {
    let suggestion = (found.entries == 0).then(|| {
        let nothing = searches::no_match(&found, input.offset);
        match (found.stopped, input.offset) {
            (None, 0) => format!("{nothing}; try a wider pattern, or other files"),
            _ => nothing,
        }
    });
    let notes = searches::grep_notes(&found, "offset");
    let matches: Vec<Match> = found
        .files
        .iter()
        .flat_map(|file| {
            let path = file.path.to_string();
            file.lines.iter().map(move |line| Match {
                file: path.clone(),
                line: line.number,
                content: line.text.clone(),
            })
        })
        .collect();
    let output = Output {
        total_matches: input.offset + matches.len() as u64,
        matches,
        replacements: Vec::new(),
        limited_results: matches!(found.stopped, Some(Stopped::PageFull | Stopped::Time)),
        files_searched: found.searched,
        next_offset: found.next,
        patch_number: None,
        suggestion,
    };
    with_notes(success(output), notes)
}

fn replaced_reply(replaced: Replaced) -> Reply {
    let Replaced { places, counts, patched, searched } = replaced;
    let suggestion = match (places, counts.is_empty()) {
        (0, _) => Some("nothing was found, so nothing was replaced".to_owned()),
        (_, true) => Some(format!(
            "{} found, but the replacement is there already; nothing was changed",
            searches::matches(places)
        )),
        _ => None,
    };
    let mut shown = 0;
    let replacement = |(file, count): (ops::PatchedFile, u64)| {
        let diff = if shown < MAX_REPLY_CHARS { shown_diff(&file.diff.text) } else { String::new() };
        shown += diff.chars().count();
        Replacement { file: file.path.to_string(), count, diff }
    };
    let output = Output {
        matches: Vec::new(),
        replacements: patched.files.into_iter().zip(counts).map(replacement).collect(),
        total_matches: places,
        limited_results: false,
        files_searched: searched,
        next_offset: None,
        patch_number: patched.number,
        suggestion,
    };
    with_notes(success(output), patched.notes)
}
