//! `read`: reads several files in one call.

use haft_core::limits::Cut;
use haft_core::{Category, Context, Fault, Reply, Spec, Tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Success, habits, success};
use haft_ops::{self as ops, Body, Caps, FileRead, Part, Reading, TokenBudget};
use haft_text::{Numbered, count_of, number};

/// The most tokens of all files together.
const MAX_TOKENS: usize = 1500;
/// Tokens of a line number, `     1\t`.
const TOKENS_PER_NUMBER: usize = 3;
/// A NUL byte among this many first bytes marks a file as binary.
const SNIFF_BYTES: usize = 1024;

/// Reads files.
pub(crate) struct Read;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// File paths
    #[schemars(length(min = 1, max = 200), example = ["src/main.py"])]
    file_paths: Vec<String>,
    /// Max lines per file (0 = all)
    #[serde(default)]
    limit: u64,
    /// Start line number, counted from 1 (0 = from the start)
    #[serde(default)]
    offset: u64,
}

/// The reply of `read`.
#[derive(Serialize, JsonSchema)]
struct Output {
    /// The files, one after the other
    content: String,
    /// How many files could be read
    files_read: usize,
    /// What could not be read, and why
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<FileError>,
    /// What else there is to know of the files
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

/// A file that could not be read.
#[derive(Serialize, JsonSchema)]
struct FileError {
    /// The path as it was asked for
    file_path: String,
    /// Why
    error: String,
}

impl Tool for Read {
    const NAME: &'static str = "read";
    const DESCRIPTION: &'static str = include_str!("read.md");
    type Input = Input;
    type Op = ops::Read;

    fn spec(spec: Spec) -> Spec {
        spec.category(Category::File).read_only().max_result(100_000, Cut::Start).output::<Success<Output>>()
    }

    fn lower(input: &Input, cx: &Context) -> Result<ops::Read, Fault> {
        if let [only] = &input.file_paths[..] {
            habits::count_read(only, cx);
        }
        let files = ops::existing_all(&input.file_paths, &cx.cwd(), cx);
        Ok(ops::Read {
            files,
            part: Part::Lines { start: input.offset.max(1), count: (input.limit > 0).then_some(input.limit) },
            reading: Reading::Text,
            pages: None,
            caps: Caps {
                file_bytes: None,
                line_chars: usize::MAX,
                window_bytes: 1024 * 1024,
                sniff_bytes: SNIFF_BYTES,
                tokens: Some(TokenBudget { max: MAX_TOKENS, per_line: TOKENS_PER_NUMBER }),
            },
        })
    }

    fn render(input: &Input, output: Vec<Result<FileRead, Fault>>, cx: &Context) -> Result<Reply, Fault> {
        let mut reply =
            Output { content: String::new(), files_read: 0, errors: Vec::new(), notes: Vec::new() };
        for (path, outcome) in input.file_paths.iter().zip(output) {
            if !reply.content.is_empty() {
                reply.content.push_str("\n\n");
            }
            match outcome {
                Ok(file) => {
                    reply.files_read += 1;
                    if let Body::Lines(lines) = &file.body
                        && let Some(note) = lines.encoding.note()
                    {
                        reply.notes.push(format!("{path}: {note}"));
                    }
                    reply.content.push_str(&format!("=== {} ===\n", file.path));
                    reply.content.push_str(&numbered(file, input.offset.max(1)));
                }
                Err(fault) => {
                    reply.content.push_str(&format!("=== {path} ===\n[Error: {}]", fault.message()));
                    reply.errors.push(FileError { file_path: path.clone(), error: fault.to_string() });
                }
            }
        }
        reply.notes.extend(habits::of_read(cx));
        Ok(success(reply))
    }

    fn preview_use(input: &Input) -> Option<String> {
        Some(input.file_paths.join(", "))
    }
}

fn numbered(file: FileRead, first: u64) -> String {
    match file.body {
        Body::Lines(lines) if lines.count == 0 => match lines.total {
            Some(0) | None => "[Empty file]".to_owned(),
            Some(total) => format!("[No line {first}: the file has {}]", count_of(total, "line")),
        },
        Body::Lines(lines) => {
            number(&lines.text, &Numbered { separator: "\t", first, max_chars: usize::MAX })
        }
        _ => "[Binary file - content not displayed]".to_owned(),
    }
}
