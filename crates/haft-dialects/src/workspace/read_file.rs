//! `read_file`: reads a whole file, as text or base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use haft_core::limits::Cut;
use haft_core::{Category, Context, Fault, FaultKind, Reply, Spec, Tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Done, Encoding, ok};
use haft_ops::{self as ops, Body, Caps, FileRead, Part, Reading};
use haft_text::iso;

/// The largest file, in bytes.
const MAX_FILE_BYTES: u64 = 10 * 1024 * 1024;

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
}

/// The value of `read_file`.
#[derive(Serialize, JsonSchema)]
struct Output {
    /// The content in the encoding that was asked for
    content: String,
    /// The file's size in bytes
    size: u64,
    /// When it was last changed, as an ISO 8601 timestamp
    modified: String,
}

impl Tool for ReadFile {
    const NAME: &'static str = "read_file";
    const DESCRIPTION: &'static str = include_str!("read_file.md");
    type Input = Input;
    type Op = ops::Read;

    fn spec(spec: Spec) -> Spec {
        spec.category(Category::File).read_only().max_result(100_000, Cut::Start).output::<Done<Output>>()
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
    let content = match input.encoding {
        Encoding::Base64 => BASE64.encode(&*bytes),
        Encoding::Utf8 => String::from_utf8(bytes.into()).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            Fault::new(
                FaultKind::Encoding,
                format!("`{}` is not UTF-8 text: byte {at} is not part of a character", input.path),
            )
            .hint("read it with `encoding`: \"base64\"")
            .at(&input.path)
        })?,
    };
    Ok(Output { content, size, modified: iso(file.modified) })
}
