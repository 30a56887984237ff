//! `read_file`: reads a file, as text or base64; a long one in parts.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use haft_core::limits::Cut;
use haft_core::{Category, Context, Fault, FaultKind, Reply, Spec, Tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Done, Encoding, ok};
use haft_ops::{self as ops, Body, Caps, FileRead, Part, Reading};
use haft_text::{count_of, iso};

/// The largest file, in bytes.
const MAX_FILE_BYTES: u64 = 10 * 1024 * 1024;
/// The longest reply, in characters.
const MAX_RESULT_CHARS: usize = 100_000;
/// The longest content in a reply, in characters of JSON; the rest of the reply needs little room.
const MAX_CONTENT_CHARS: usize = MAX_RESULT_CHARS - 2_000;

/// Reads a file.
pub(crate) struct ReadFile;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// Path relative to the workspace root
    #[schemars(example = "src/index.ts")]
    path: String,
    /// How the content is returned
    #[serde(default)]
    encoding: Encoding,
    /// The byte to begin at, counted from 0: the `nextOffset` of an earlier reply
    #[serde(default)]
    offset: u64,
    /// How many bytes at most
    #[schemars(range(min = 1))]
    limit: Option<u64>,
}

/// The value of `read_file`.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Output {
    /// The content in the encoding that was asked for
    content: String,
    /// The file's size in bytes
    size: u64,
    /// When it was last changed, as an ISO 8601 timestamp
    modified: String,
    /// The `offset` to read on with, if this is not the end of the file
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<u64>,
}

impl Tool for ReadFile {
    const NAME: &'static str = "read_file";
    const DESCRIPTION: &'static str = include_str!("read_file.md");
    type Input = Input;
    type Op = ops::Read;

    fn spec(spec: Spec) -> Spec {
        spec.category(Category::File)
            .read_only()
            .max_result(MAX_RESULT_CHARS, Cut::Start)
            .output::<Done<Output>>()
    }

    fn lower(input: &Input, cx: &Context) -> Result<ops::Read, Fault> {
        let (place, _) = ops::existing(&input.path, cx.workspace().root(), cx)?;
        Ok(ops::Read {
            files: vec![Ok(place.path)],
            part: Part::Bytes,
            reading: Reading::Utf8,
            pages: None,
            caps: Caps {
                file_bytes: Some(MAX_FILE_BYTES),
                line_chars: usize::MAX,
                window_bytes: usize::MAX,
                sniff_bytes: 0,
                tokens: None,
            },
        })
    }

    fn render(input: &Input, output: Vec<Result<FileRead, Fault>>, _cx: &Context) -> Result<Reply, Fault> {
        content(input, ops::only(output)?).map(ok)
    }

    fn preview_use(input: &Input) -> Option<String> {
        Some(input.path.clone())
    }
}

fn content(input: &Input, file: FileRead) -> Result<Output, Fault> {
    let Body::Bytes(bytes) = file.body else {
        return Err(Fault::new(FaultKind::Internal, "lines were read instead of bytes"));
    };
    let size = file.size;
    let start = usize::try_from(input.offset).unwrap_or(usize::MAX);
    let Some(rest) = bytes.get(start..) else {
        return Err(Fault::invalid(format!(
            "`offset` is {start}, and `{}` has only {}",
            input.path,
            count_of(size, "byte")
        ))
        .at(&input.path));
    };
    let limit = input.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let (content, end) = match input.encoding {
        Encoding::Base64 => {
            // Three bytes are four characters.
            let part = &rest[..rest.len().min(limit).min(MAX_CONTENT_CHARS / 4 * 3)];
            (BASE64.encode(part), start + part.len())
        }
        Encoding::Utf8 => {
            let rest = text(rest, start, limit, &input.path)?;
            let part = &rest[..fitting(rest)];
            (part.to_owned(), start + part.len())
        }
    };
    let next_offset = (end < bytes.len()).then_some(end as u64);
    Ok(Output { content, size, modified: iso(file.modified), next_offset })
}

/// Up to `limit` bytes as text, without the start of a character that the limit cuts; one character at the least.
fn text<'a>(bytes: &'a [u8], start: usize, limit: usize, path: &str) -> Result<&'a str, Fault> {
    let is_inside = |at: usize| bytes.get(at).is_some_and(|byte| byte & 0xC0 == 0x80);
    let mut end = bytes.len().min(limit);
    while end > 0 && is_inside(end) {
        end -= 1;
    }
    if end == 0 && !bytes.is_empty() {
        end = (1..4).find(|at| !is_inside(*at)).unwrap_or(4).min(bytes.len());
    }
    std::str::from_utf8(&bytes[..end]).map_err(|error| {
        let at = start + error.valid_up_to();
        let fault = Fault::new(
            FaultKind::Encoding,
            format!("`{path}` is not UTF-8 text: byte {at} is not part of a character"),
        );
        fault.hint("read it with `encoding`: \"base64\"").at(path)
    })
}

/// How many bytes of a text fit into a reply; up to a line end where there is one.
fn fitting(text: &str) -> usize {
    let mut chars = 0;
    let too_long = text.char_indices().find(|(_, c)| {
        chars += match c {
            '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
            c if c.is_ascii_control() => 6,
            _ => 1,
        };
        chars > MAX_CONTENT_CHARS
    });
    match too_long {
        None => text.len(),
        Some((end, _)) => text[..end].rfind('\n').map_or(end, |line_end| line_end + 1),
    }
}
