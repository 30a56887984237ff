//! `Grep`: searches files, with output like ripgrep's.

use std::fmt::Write as _;

use haft_core::limits::Cut;
use haft_core::{Category, Context, Fault, Reply, Spec, Tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::searches;
use haft_ops::{
    self as ops, Bounds, Case, FileFound, Filter, GrepResult, LineMode, Page, Pattern, Sorting, Span, Syntax,
};
use haft_text::count_of;

/// The longest reply, in characters.
const MAX_RESULT_CHARS: usize = 20_000;
/// Characters reserved for notes.
const FOR_NOTES: usize = 1000;
/// Lines are cut to this length.
const MAX_LINE_CHARS: usize = 500;
/// The most context lines around a match.
const MAX_CONTEXT_LINES: usize = 1000;

/// Searches in files.
pub(crate) struct Grep;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// The regular expression to search for
    #[schemars(example = r"fn \w+_async")]
    pattern: String,
    /// The file or directory to search in; the working directory if left out
    #[schemars(length(min = 1))]
    path: Option<String>,
    /// Only files whose names fit, such as "*.js" or "*.{ts,tsx}"; several are separated by spaces
    glob: Option<String>,
    /// Only files of this type, by ripgrep's names: js, py, rust, go, java …
    r#type: Option<String>,
    /// "files_with_matches" lists files (the default), "content" shows lines, "count" counts them
    #[serde(default)]
    output_mode: Mode,
    /// Whether a match may go over several lines and `.` matches line ends
    #[serde(default)]
    multiline: bool,
    /// Whether capital and small letters are the same
    #[serde(default, rename = "-i")]
    ignore_case: bool,
    /// Whether lines are numbered in "content"; yes if left out
    #[serde(rename = "-n")]
    numbers: Option<bool>,
    /// Lines to show after each match in "content"
    #[serde(rename = "-A")]
    after: Option<usize>,
    /// Lines to show before each match in "content"
    #[serde(rename = "-B")]
    before: Option<usize>,
    /// Lines to show before and after each match in "content"
    #[serde(rename = "-C")]
    around: Option<usize>,
    /// How many entries to give: lines in "content", files otherwise; all if left out or 0
    head_limit: Option<u64>,
    /// How many entries to skip, to go on where an earlier reply ended
    #[serde(default)]
    offset: u64,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Mode {
    Content,
    #[default]
    FilesWithMatches,
    Count,
}

impl Tool for Grep {
    const NAME: &'static str = "Grep";
    const DESCRIPTION: &'static str = include_str!("grep.md");
    type Input = Input;
    type Op = ops::Grep;

    fn spec(spec: Spec) -> Spec {
        spec.category(Category::File).read_only().max_result(MAX_RESULT_CHARS, Cut::Start)
    }

    fn lower(input: &Input, cx: &Context) -> Result<ops::Grep, Fault> {
        let (place, _) = ops::existing(input.path.as_deref().unwrap_or("."), &cx.cwd(), cx)?;
        let around = input.around.unwrap_or(0);
        Ok(ops::Grep {
            root: place.path,
            pattern: Pattern {
                text: input.pattern.clone(),
                syntax: Syntax::Regex,
                case: if input.ignore_case { Case::Insensitive } else { Case::Sensitive },
                bounds: Bounds::Anywhere,
                span: if input.multiline { Span::Lines } else { Span::Line },
                span_option: Some("multiline"),
            },
            filter: Filter {
                globs: searches::globs(input.glob.as_deref().unwrap_or_default()),
                types: input.r#type.iter().filter(|name| !name.is_empty()).cloned().collect(),
                ..Filter::default()
            },
            what: match input.output_mode {
                Mode::FilesWithMatches => LineMode::Any,
                Mode::Count => LineMode::Count,
                Mode::Content => LineMode::Lines {
                    before: input.before.unwrap_or(around).min(MAX_CONTEXT_LINES),
                    after: input.after.unwrap_or(around).min(MAX_CONTEXT_LINES),
                },
            },
            sorting: Sorting::Path,
            page: Page {
                skip: input.offset,
                limit: input.head_limit.filter(|limit| *limit > 0),
                bytes: MAX_RESULT_CHARS - FOR_NOTES,
                each: 10,
                line_chars: MAX_LINE_CHARS,
            },
        })
    }

    fn render(input: &Input, output: GrepResult, cx: &Context) -> Result<Reply, Fault> {
        let mut text = String::new();
        let mut files = Vec::new();
        for file in &output.files {
            let path = searches::display_path(&file.path, cx);
            match input.output_mode {
                Mode::FilesWithMatches => line(&mut text, format_args!("{path}")),
                Mode::Count => line(&mut text, format_args!("{path}:{}", file.count)),
                Mode::Content => content(&mut text, &path, file, input),
            }
            files.push(match input.output_mode {
                Mode::Content => json!({"file": path, "lines": file.lines.len()}),
                Mode::FilesWithMatches => json!(path),
                Mode::Count => json!({"file": path, "count": file.count}),
            });
        }
        let structured = json!({
            "mode": match input.output_mode {
                Mode::Content => "content",
                Mode::FilesWithMatches => "files_with_matches",
                Mode::Count => "count",
            },
            "files": files,
            "entries": output.entries,
            "next_offset": output.next,
            "complete": output.stopped.is_none(),
            "files_searched": output.searched,
        });
        if text.is_empty() {
            text = searches::no_match(&output, input.offset);
        } else if input.output_mode == Mode::Count && output.stopped.is_none() && input.offset == 0 {
            let counted = match input.multiline {
                true => searches::matches(output.matches),
                false => count_of(output.matches, "line"),
            };
            line(&mut text, format_args!("\n{counted} in {}", count_of(output.files.len() as u64, "file")));
        }
        let reply = Reply::text(text.trim_end_matches('\n')).structured(structured);
        let notes = searches::grep_notes(&output, "offset");
        Ok(notes.into_iter().fold(reply, |reply, note| reply.internal(format!("note: {note}"))))
    }

    fn preview_use(input: &Input) -> Option<String> {
        Some(searches::describe(&input.pattern, input.path.as_deref()))
    }
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    let _ = writeln!(text, "{line}");
}

/// Writes the lines of a file, each with its path. Context lines have a dash where matches have a colon.
fn content(text: &mut String, path: &str, file: &FileFound, input: &Input) {
    let has_context = [input.after, input.before, input.around].into_iter().flatten().any(|lines| lines > 0);
    for (at, found) in file.lines.iter().enumerate() {
        if has_context && !text.is_empty() && (at == 0 || found.gap) {
            text.push_str("--\n");
        }
        let mark = if found.column.is_some() { ':' } else { '-' };
        let shown = &found.text;
        match input.numbers.unwrap_or(true) {
            true => line(text, format_args!("{path}{mark}{}{mark}{shown}", found.number)),
            false => line(text, format_args!("{path}{mark}{shown}")),
        }
    }
}
