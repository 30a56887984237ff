//! `read`: reads the lines of a UTF-8 file, numbered with an arrow.

use haft_core::limits::Cut;
use haft_core::{Category, Context, Fault, FaultKind, Reply, Spec, Tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use haft_ops::{self as ops, Body, Caps, FileRead, Part, Reading};
use haft_text::{Numbered, count_of, number};

const DEFAULT_LINES: u64 = 2000;
const MAX_LINE_CHARS: usize = 2000;
const MAX_FILE_BYTES: u64 = 5 * 1024 * 1024;
/// The longest reply, in characters.
const MAX_RESULT_CHARS: usize = 100_000;

/// Reads a file.
pub(crate) struct Read;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// Path of the file
    #[schemars(example = &"main.go")]
    file_path: String,
    /// Line to start from, counted from 0
    #[serde(default)]
    offset: u64,
    /// Number of lines to read
    #[serde(default = "default_lines")]
    #[schemars(range(min = 1))]
    limit: u64,
}

fn default_lines() -> u64 {
    DEFAULT_LINES
}

impl Tool for Read {
    const NAME: &'static str = "read";
    const DESCRIPTION: &'static str = include_str!("read.md");
    type Input = Input;
    type Op = ops::Read;

    fn spec(spec: Spec) -> Spec {
        spec.category(Category::File).read_only().max_result(MAX_RESULT_CHARS, Cut::Start)
    }

    fn lower(input: &Input, cx: &Context) -> Result<ops::Read, Fault> {
        let (place, _) = ops::existing(&input.file_path, &cx.cwd(), cx)?;
        Ok(ops::Read {
            files: vec![Ok(place.path)],
            part: Part::Lines { start: input.offset.saturating_add(1), count: Some(input.limit) },
            reading: Reading::Utf8,
            pages: None,
            caps: Caps {
                file_bytes: Some(MAX_FILE_BYTES),
                line_chars: MAX_LINE_CHARS,
                window_bytes: MAX_RESULT_CHARS - MAX_LINE_CHARS - 1000,
                sniff_bytes: 0,
                tokens: None,
            },
        })
    }

    fn render(input: &Input, output: Vec<Result<FileRead, Fault>>, cx: &Context) -> Result<Reply, Fault> {
        shown(input, ops::only(output)?, cx)
    }

    fn preview_use(input: &Input) -> Option<String> {
        Some(input.file_path.clone())
    }
}

fn shown(input: &Input, file: FileRead, cx: &Context) -> Result<Reply, Fault> {
    let path = cx.workspace().display(&file.path);
    let Body::Lines(lines) = file.body else { return Err(not_utf8(&input.file_path)) };
    let first = input.offset.saturating_add(1);
    let structured = json!({
        "file_path": path,
        "offset": input.offset,
        "lines": lines.count,
        "total_lines": lines.total,
        "next_offset": lines.more.then_some(input.offset + lines.count),
    });
    if lines.count == 0 {
        let why = match lines.total {
            Some(0) | None => format!("({path} is empty)"),
            Some(total) => {
                let lines = count_of(total, "line");
                format!("({path} has {lines}; offset {} lies past its end)", input.offset)
            }
        };
        return Ok(Reply::text(why).structured(structured));
    }
    let numbered = number(&lines.text, &Numbered { separator: "→", first, max_chars: MAX_LINE_CHARS });
    let mut reply = Reply::text(numbered).structured(structured);
    if lines.more {
        reply = reply.internal(format!("(the file goes on; use offset {})", input.offset + lines.count));
    }
    Ok(reply)
}

fn not_utf8(path: &str) -> Fault {
    Fault::new(FaultKind::Encoding, format!("`{path}` is not valid UTF-8")).at(path)
}
