//! `write_file`: writes a whole file, given as text or base64.

use base64::engine::general_purpose::STANDARD as BASE64;
use base64::{DecodeError, Engine as _};
use haft_core::permissions::Approval;
use haft_core::{Category, Context, Fault, Reply, Sensitivity, Spec, Tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Done, Encoding, ok, with_notes};
use haft_ops::{self as ops, Change, ChangeRequest, Changed, Knowledge, Parents, Terms, To};

/// Writes a file.
pub(crate) struct WriteFile;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Input {
    /// Path relative to the workspace root
    #[schemars(example = "src/index.ts")]
    path: String,
    /// All that the file is to contain, in the given encoding
    #[schemars(example = "export {};\n")]
    content: String,
    /// How the content is given
    #[serde(default)]
    encoding: Encoding,
    /// Make parent directories that are missing
    #[serde(default)]
    create_dirs: bool,
}

/// The value of `write_file`.
#[derive(Serialize, JsonSchema)]
struct Output {
    /// The path relative to the workspace root
    path: String,
    /// The file's size in bytes
    size: u64,
}

impl Tool for WriteFile {
    const NAME: &'static str = "write_file";
    const DESCRIPTION: &'static str = include_str!("write_file.md");
    type Input = Input;
    type Op = Change;

    fn spec(spec: Spec) -> Spec {
        spec.category(Category::File).sensitivity(Sensitivity::Sensitive).output::<Done<Output>>()
    }

    fn lower(input: &Input, cx: &Context) -> Result<Change, Fault> {
        let to = match input.encoding {
            Encoding::Utf8 => To::Utf8(input.content.clone()),
            Encoding::Base64 => To::Bytes(BASE64.decode(input.content.trim()).map_err(|error| {
                Fault::invalid(format!("`content` is not base64: {}", why(error)))
                    .hint("encode the bytes again, or give text with `encoding`: \"utf-8\"")
                    .at(&input.path)
            })?),
        };
        let parents = if input.create_dirs { Parents::Make } else { Parents::Require("`createDirs`") };
        Ok(Change::new(ChangeRequest {
            path: ops::writable(&input.path, cx.workspace().root(), cx)?,
            named: input.path.clone(),
            to,
            terms: Terms { knowledge: Knowledge::Current, parents, ..Terms::default() },
        }))
    }

    fn approval(input: &Input, op: &Change, _cx: &Context) -> Approval {
        match op.replaces() {
            true => Approval::Needed(format!("`{}` would be overwritten", input.path)),
            false => Approval::NotNeeded,
        }
    }

    fn render(_input: &Input, output: Changed, cx: &Context) -> Result<Reply, Fault> {
        let Changed { path, size, notes, .. } = output;
        Ok(with_notes(ok(Output { path: cx.workspace().display(&path), size }), notes))
    }

    fn preview_use(input: &Input) -> Option<String> {
        Some(input.path.clone())
    }
}

fn why(error: DecodeError) -> String {
    match error {
        DecodeError::InvalidByte(at, byte) => {
            format!("character {} is `{}`", at + 1, char::from(byte).escape_default())
        }
        DecodeError::InvalidLastSymbol(at, _) => {
            format!("it breaks off in the middle of a byte, at character {}", at + 1)
        }
        DecodeError::InvalidLength(length) => format!("{length} characters make no whole bytes"),
        DecodeError::InvalidPadding => "the `=` at its end are missing or too many".to_owned(),
    }
}
