//! `Read`: reads a file's lines, numbered like `cat -n`.

use haft_core::images::FittedImage;
use haft_core::limits::Cut;
use haft_core::replies::Block;
use haft_core::{Category, Context, Fault, FaultKind, Reply, Spec, Tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use haft_ops::{self as ops, Body, Caps, FileRead, Lines, Pages, Part, Piece, Reading};
use haft_text::{Numbered, count_of, number};

/// The default number of lines.
const DEFAULT_LINES: u64 = 2000;
/// Lines are cut to this length.
const MAX_LINE_CHARS: usize = 2000;
/// The longest reply, in characters.
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
    /// Which pages of a PDF to read, such as "3", "1-5" or "1,4-6"; at most 20 at a time
    #[schemars(example = "1-5")]
    pages: Option<String>,
}

impl Tool for Read {
    const NAME: &'static str = "Read";
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
            part: Part::Lines {
                start: input.offset.unwrap_or(1).max(1),
                count: Some(input.limit.unwrap_or(DEFAULT_LINES)),
            },
            reading: Reading::Anything,
            pages: input.pages.as_deref().map(Pages::parse).transpose()?,
            caps: Caps {
                file_bytes: None,
                line_chars: MAX_LINE_CHARS,
                // Leaves room for one more line and a note, so that the reply is cut between lines.
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
    let mut notes = file.notes;
    if !matches!(file.body, Body::Pdf(_)) && input.pages.is_some() {
        notes.push("`pages` is for PDFs only and was not used".to_owned());
    }
    if !matches!(file.body, Body::Lines(_)) && (input.offset.is_some() || input.limit.is_some()) {
        notes.push("`offset` and `limit` count lines of text and were not used".to_owned());
    }
    let reply = match file.body {
        Body::Lines(lines) => text(input, lines, &path, &mut notes),
        Body::Picture(picture) => {
            let structured = json!({
                "file_path": path,
                "mime": picture.media_type,
                "width": picture.width,
                "height": picture.height,
                "original_width": picture.original_width,
                "original_height": picture.original_height,
            });
            if picture.original_width != picture.width {
                let (width, height) = (picture.original_width, picture.original_height);
                notes.push(format!(
                    "the picture is {width}x{height} pixels and is shown at {}x{}",
                    picture.width, picture.height
                ));
            }
            blocks(vec![Piece::Picture(picture)]).structured(structured)
        }
        Body::Pdf(pdf) => {
            notes.extend(pdf.note());
            let structured = json!({"file_path": path, "pages": pdf.read, "total_pages": pdf.total, "next_page": pdf.next});
            blocks(pdf.pieces).structured(structured)
        }
        Body::Notebook(sheet) => {
            let structured = json!({"file_path": path, "cells": sheet.cells, "language": sheet.language});
            if sheet.cells == 0 {
                Reply::text(reminder(&format!("`{path}` is a notebook without any cell")))
                    .structured(structured)
            } else {
                blocks(sheet.pieces).structured(structured)
            }
        }
        Body::Binary | Body::NotUtf8 | Body::Bytes(_) => {
            return Err(Fault::new(FaultKind::WrongKind, format!("`{}` is a binary file", input.file_path))
                .hint(
                    "text, PDFs, notebooks and pictures in PNG, JPEG, GIF or WebP can be read; convert others with a command",
                )
                .at(path));
        }
    };
    Ok(notes.into_iter().fold(reply, |reply, note| reply.internal(format!("note: {note}"))))
}

fn reminder(what: &str) -> String {
    format!("<system-reminder>{what}</system-reminder>")
}

/// Texts and images as blocks, in their order.
fn blocks(pieces: Vec<Piece>) -> Reply {
    let blocks = pieces.into_iter().map(|piece| match piece {
        Piece::Text(text) => Block::text(text.trim_end()),
        Piece::Picture(picture) => Block::from(FittedImage::from(picture)),
    });
    Reply::blocks(blocks.collect())
}

fn text(input: &Input, lines: Lines, path: &str, notes: &mut Vec<String>) -> Reply {
    let first = input.offset.unwrap_or(1).max(1);
    let structured = json!({
        "file_path": path,
        "start_line": first,
        "lines": lines.count,
        "total_lines": lines.total,
        "next_offset": lines.more.then_some(first + lines.count),
        "encoding": lines.encoding.charset,
    });
    if lines.count == 0 {
        let why = match lines.total.unwrap_or_default() {
            0 => format!("`{path}` exists but is empty"),
            total => format!("`{path}` has {}; line {first} lies past its end", count_of(total, "line")),
        };
        return Reply::text(reminder(&why)).structured(structured);
    }
    if lines.more {
        let next = first + lines.count;
        notes.push(format!("the file goes on; read it from line {next} with `offset`: {next}"));
    }
    notes.extend(lines.encoding.note());
    let numbered = number(&lines.text, &Numbered { separator: "\t", first, max_chars: MAX_LINE_CHARS });
    Reply::text(numbered).structured(structured)
}
