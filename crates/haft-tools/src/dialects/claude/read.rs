//! `Read`: a file's lines, numbered as `cat -n` does.

use haft::{Context, Cut, Fault, FaultKind, Reply, Spec, Tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::ops::{self, Body, Caps, FileRead, Part, Reading};
use crate::text::{Numbered, count_of, number};

/// Lines that are read when no limit is given.
const DEFAULT_LINES: u64 = 2000;
/// Longer lines are cut.
const MAX_LINE_CHARS: usize = 2000;
/// The longest reply.
const MAX_RESULT_CHARS: usize = 100_000;

/// Reads a file.
pub(crate) struct Read;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// The file to read
    #[schemars(example = "src/main.rs")]
    file_path: String,
    /// The number of the first line to read, counted from 1
    offset: Option<u64>,
    /// How many lines to read
    #[schemars(range(min = 1))]
    limit: Option<u64>,
}

impl Tool for Read {
    const NAME: &'static str = "Read";
    const DESCRIPTION: &'static str = include_str!("read.md");
    type Input = Input;
    type Op = ops::Read;

    fn spec(spec: Spec) -> Spec {
        spec.category("file").read_only().max_result(MAX_RESULT_CHARS, Cut::Start)
    }

    fn lower(input: &Input, cx: &Context) -> Result<ops::Read, Fault> {
        let (place, _) = ops::existing(&input.file_path, &cx.cwd(), cx)?;
        Ok(ops::Read {
            files: vec![Ok(place.path)],
            part: Part::Lines {
                start: input.offset.unwrap_or(1).max(1),
                count: Some(input.limit.unwrap_or(DEFAULT_LINES)),
            },
            reading: Reading::Text,
            caps: Caps {
                file_bytes: None,
                line_chars: MAX_LINE_CHARS,
                // Leaves room for one more line and a note, so that the window ends at a line and not in one.
                window_bytes: MAX_RESULT_CHARS - MAX_LINE_CHARS - 1000,
                sniff_bytes: 8192,
                tokens: None,
            },
        })
    }

    fn render(input: &Input, output: Vec<Result<FileRead, Fault>>, cx: &Context) -> Result<Reply, Fault> {
        shown(input, ops::only(output)?, cx)
    }

    fn preview_use(input: &Input) -> Option<String> {
        Some(match (input.offset, input.limit) {
            (None, None) => input.file_path.clone(),
            (offset, Some(limit)) => {
                let first = offset.unwrap_or(1).max(1);
                format!("{} lines {first}–{}", input.file_path, first.saturating_add(limit) - 1)
            }
            (Some(offset), None) => format!("{} from line {offset}", input.file_path),
        })
    }
}

fn shown(input: &Input, file: FileRead, cx: &Context) -> Result<Reply, Fault> {
    let path = cx.workspace().display(&file.path);
    let Body::Lines(lines) = file.body else {
        return Err(Fault::new(FaultKind::WrongKind, format!("`{}` is a binary file", input.file_path))
            .hint("only text can be read; look at binary files with a command")
            .with("path", path));
    };
    let first = input.offset.unwrap_or(1).max(1);
    let structured = json!({
        "file_path": path,
        "start_line": first,
        "lines": lines.count,
        "total_lines": lines.total,
        "next_offset": lines.more.then_some(first + lines.count),
        "encoding": lines.encoding.charset,
    });
    let (count, more, total) = (lines.count, lines.more, lines.total.unwrap_or_default());
    if count == 0 {
        let why = match total {
            0 => format!("`{path}` exists but is empty"),
            total => format!("`{path}` has {}; line {first} lies past its end", count_of(total, "line")),
        };
        return Ok(Reply::text(format!("<system-reminder>{why}</system-reminder>")).structured(structured));
    }
    let numbered = number(&lines.text, &Numbered { separator: "\t", first, max_chars: MAX_LINE_CHARS });
    let mut reply = Reply::text(numbered).structured(structured);
    if more {
        let next = first + count;
        reply =
            reply.internal(format!("note: the file goes on; read it from line {next} with `offset`: {next}"));
    }
    if let Some(note) = lines.encoding.note() {
        reply = reply.internal(format!("note: {note}"));
    }
    Ok(reply)
}
