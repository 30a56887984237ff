//! `grep`: searches files. Lists matches per file, with line and column.

use std::fmt::Write as _;

use haft_core::limits::Cut;
use haft_core::{Category, Context, Fault, Reply, Spec, Tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::searches;
use haft_ops::{
    self as ops, Bounds, Case, Filter, GrepResult, LineMode, Page, Pattern, Sorting, Span, Stopped, Syntax,
};

/// The most matches shown.
const MAX_MATCHES: u64 = 100;
/// Lines are cut to this length.
const MAX_LINE_CHARS: usize = 500;
/// The longest reply, in characters.
const MAX_RESULT_CHARS: usize = 30_000;

/// Searches in files.
pub(crate) struct Grep;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// Regular expression
    #[schemars(example = &"log.*Error")]
    pattern: String,
    /// Directory or file to search; the working directory if left out
    #[schemars(length(min = 1))]
    path: Option<String>,
    /// Pattern of the files to search
    #[schemars(example = &"*.{ts,tsx}")]
    include: Option<String>,
    /// Whether the pattern is the text itself
    #[serde(default)]
    literal_text: bool,
    /// How many matches to leave out, to go on where an earlier reply ended
    #[serde(default)]
    offset: u64,
}

impl Tool for Grep {
    const NAME: &'static str = "grep";
    const DESCRIPTION: &'static str = include_str!("grep.md");
    type Input = Input;
    type Op = ops::Grep;

    fn spec(spec: Spec) -> Spec {
        spec.category(Category::File).read_only().max_result(MAX_RESULT_CHARS, Cut::Start)
    }

    fn lower(input: &Input, cx: &Context) -> Result<ops::Grep, Fault> {
        let (place, _) = ops::existing(input.path.as_deref().unwrap_or("."), &cx.cwd(), cx)?;
        Ok(ops::Grep {
            root: place.path,
            pattern: Pattern {
                text: input.pattern.clone(),
                syntax: if input.literal_text { Syntax::Literal } else { Syntax::Regex },
                case: Case::Sensitive,
                bounds: Bounds::Anywhere,
                span: Span::Line,
                span_option: None,
            },
            filter: Filter {
                globs: searches::globs(input.include.as_deref().unwrap_or_default()),
                ..super::filter()
            },
            what: LineMode::Lines { before: 0, after: 0 },
            sorting: Sorting::Newest,
            page: Page {
                skip: input.offset,
                limit: Some(MAX_MATCHES),
                bytes: MAX_RESULT_CHARS - 2000,
                each: 26,
                line_chars: MAX_LINE_CHARS,
            },
        })
    }

    fn render(input: &Input, output: GrepResult, cx: &Context) -> Result<Reply, Fault> {
        let mut text = match (output.entries, output.stopped) {
            (0, _) => searches::no_match(&output, input.offset),
            (count, None) => format!("Found {}", searches::matches(count)),
            (count, Some(Stopped::PageFull | Stopped::Time)) => {
                format!("Found at least {}", searches::matches(input.offset + count))
            }
        };
        let mut matches = Vec::new();
        for file in &output.files {
            let path = searches::display_path(&file.path, cx);
            let _ = write!(text, "\n{path}:");
            for line in &file.lines {
                let column = line.column.unwrap_or(1);
                let _ = write!(text, "\n  Line {}, Char {column}: {}", line.number, line.text);
                matches.push(json!({"file": path, "line": line.number, "char": column, "text": line.text}));
            }
        }
        let reply = Reply::text(text).structured(json!({
            "matches": matches,
            "next_offset": output.next,
            "complete": output.stopped.is_none(),
            "files_searched": output.searched,
        }));
        let notes = searches::grep_notes(&output, "offset");
        Ok(notes.into_iter().fold(reply, |reply, note| reply.internal(format!("({note})"))))
    }

    fn preview_use(input: &Input) -> Option<String> {
        Some(searches::describe(&input.pattern, input.path.as_deref()))
    }
}
