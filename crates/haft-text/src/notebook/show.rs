//! Renders a notebook for a model: every cell with its outputs, with pictures in between.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;

use super::{Notebook, id_of, joined, numbered};
use crate::clusters::clip;

/// Most characters of an output.
const MAX_OUTPUT_CHARS: usize = 8_000;
/// Most pictures that are included; further ones are only named.
const MAX_PICTURES: usize = 8;
/// Types of pictures that are included; others are only named.
const PICTURES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// A rendered notebook.
#[derive(Debug, Default, PartialEq)]
pub struct Shown {
    pub parts: Vec<Part>,
    pub cells: usize,
    pub language: Option<String>,
}

/// A part of a rendered notebook.
#[derive(Debug, PartialEq)]
pub enum Part {
    /// Text.
    Text(String),
    /// The bytes of a picture.
    Picture(Vec<u8>),
}

/// Renders a notebook. Fails if the text is not a notebook.
pub fn show(text: &str) -> Result<Shown, String> {
    let notebook = Notebook::parse(text)?;
    let language = ["/kernelspec/language", "/language_info/name"]
        .into_iter()
        .find_map(|place| notebook.metadata.pointer(place)?.as_str())
        .map(str::to_owned);
    let cells = notebook.cells()?;
    let mut renderer = Renderer {
        shown: Shown { cells: cells.len(), language, ..Shown::default() },
        text: String::new(),
        pictures: 0,
    };
    for (number, cell) in cells.into_iter().enumerate() {
        let cell: Value = serde_json::from_str(cell.get()).map_err(|error| error.to_string())?;
        renderer.cell(number, &cell);
    }
    renderer.next_part();
    Ok(renderer.shown)
}

/// The state of rendering.
struct Renderer {
    shown: Shown,
    text: String,
    pictures: usize,
}

impl Renderer {
    fn next_part(&mut self) {
        if !self.text.is_empty() {
            self.shown.parts.push(Part::Text(std::mem::take(&mut self.text)));
        }
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        if !line.ends_with('\n') {
            self.text.push('\n');
        }
    }

    fn cell(&mut self, number: usize, cell: &Value) {
        let kind = cell.get("cell_type").and_then(Value::as_str).unwrap_or("unknown");
        let id = id_of(cell).map_or_else(|| numbered(number), str::to_owned);
        let _ = write!(self.text, "<cell number=\"{number}\" id=\"{id}\" type=\"{kind}\"");
        if kind == "code" {
            let language = cell.get("language").and_then(Value::as_str).or(self.shown.language.as_deref());
            if let Some(language) = language {
                let _ = write!(self.text, " language=\"{language}\"");
            }
            let run =
                cell.get("execution_count").or_else(|| cell.get("prompt_number")).and_then(Value::as_u64);
            if let Some(run) = run {
                let _ = write!(self.text, " run=\"{run}\"");
            }
        }
        self.text.push_str(">\n");
        // Format 3 names the source of code `input`.
        let source = joined(cell.get("source").or_else(|| cell.get("input")));
        let level = cell.get("level").and_then(Value::as_u64).filter(|_| kind == "heading");
        let source = match level {
            Some(level) => format!("{} {source}", "#".repeat(level.min(6) as usize)),
            None => source,
        };
        if !source.is_empty() {
            self.line(&source);
        }
        self.line("</cell>");
        let outputs = cell.get("outputs").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        if !outputs.is_empty() {
            let _ = writeln!(self.text, "<output of=\"{number}\">");
            outputs.iter().for_each(|output| self.output(output));
            self.line("</output>");
        }
        for name in cell.get("attachments").and_then(Value::as_object).into_iter().flat_map(|all| all.keys())
        {
            self.line(&format!("[attachment {name}]"));
        }
    }

    fn output(&mut self, output: &Value) {
        match output.get("output_type").and_then(Value::as_str).unwrap_or_default() {
            "stream" => self.output_text(&joined(output.get("text"))),
            "error" | "pyerr" => {
                let traceback = match output.get("traceback") {
                    Some(Value::Array(lines)) if !lines.is_empty() => {
                        lines.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n")
                    }
                    _ => {
                        let part = |name| output.get(name).and_then(Value::as_str).unwrap_or_default();
                        format!("{}: {}", part("ename"), part("evalue"))
                    }
                };
                self.output_text(&traceback);
            }
            // Format 3 has the data next to the type, under short names.
            _ => match output.get("data") {
                Some(data) => self.data(data),
                None => self.v3_data(output),
            },
        }
    }

    fn data(&mut self, data: &Value) {
        let Some(data) = data.as_object() else { return };
        let picture = PICTURES.into_iter().find(|kind| data.contains_key(*kind));
        if let Some(kind) = picture {
            self.picture(kind, &joined(data.get(kind)));
        }
        let text = ["text/plain", "text/markdown"].into_iter().find(|kind| data.contains_key(*kind));
        // The text of a picture is only the representation of an object.
        if let Some(kind) = text.filter(|_| picture.is_none()) {
            self.output_text(&joined(data.get(kind)));
        }
        for (kind, value) in data {
            if Some(kind.as_str()) != picture
                && Some(kind.as_str()) != text
                && !kind.starts_with("text/plain")
            {
                let length = match value {
                    Value::String(_) | Value::Array(_) => joined(Some(value)).len(),
                    value => value.to_string().len(),
                };
                self.line(&format!("[{kind}, {length} bytes]"));
            }
        }
    }

    fn v3_data(&mut self, output: &Value) {
        for (name, kind) in [("png", "image/png"), ("jpeg", "image/jpeg")] {
            if let Some(data) = output.get(name) {
                return self.picture(kind, &joined(Some(data)));
            }
        }
        self.output_text(&joined(output.get("text")));
    }

    fn picture(&mut self, kind: &str, data: &str) {
        let plain: String = data.split_whitespace().collect();
        let Ok(bytes) = BASE64.decode(plain) else {
            return self.line(&format!("[{kind} that is no base64]"));
        };
        if self.pictures == MAX_PICTURES {
            return self
                .line(&format!("[{kind}, {} bytes, not shown: there are too many pictures]", bytes.len()));
        }
        self.pictures += 1;
        self.line(&format!("[{kind}, {} bytes]", bytes.len()));
        self.next_part();
        self.shown.parts.push(Part::Picture(bytes));
    }

    /// Adds output text, cut if it is long.
    fn output_text(&mut self, text: &str) {
        let text = without_escapes(text);
        match clip(&text, MAX_OUTPUT_CHARS) {
            None if text.is_empty() => {}
            None => self.line(&text),
            Some(shown) => {
                let left = text[shown.len()..].chars().count();
                self.line(shown);
                self.line(&format!("[{left} more characters of output]"));
            }
        }
    }
}

/// Removes terminal escape sequences, such as colours.
fn without_escapes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(sequence) = rest.strip_prefix('[') {
            let end = sequence.find(|char: char| ('\u{40}'..='\u{7e}').contains(&char));
            rest = end.map_or("", |end| &sequence[end + 1..]);
        }
    }
    out.push_str(rest);
    out
}
