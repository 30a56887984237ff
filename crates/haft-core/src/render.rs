//! Fits a reply into its limit: cuts texts and values, offloads the full reply to a file, and checks images before a
//! model sees them. How a text or a value is cut is the matter of `limits`.

use std::io;
use std::path::PathBuf;

use serde_json::{Value, json};

use std::sync::Arc;

use crate::images::{FittedImage, ImageFitter};
use crate::limits::{Cut, CutField, ResultStore, cut_json, cut_text, json_fits};
use crate::replies::{Block, Content};
use crate::{Context, Reply};

/// Characters reserved in a value for the note that it was cut.
const ROOM_FOR_NOTICE: usize = 600;

/// The most bytes of a binary block; larger ones are replaced by text.
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// Cuts a reply to at most `max` characters of text, and as many of structured value.
pub(crate) fn fit(reply: &mut Reply, max: usize, keep: Cut, offload: Option<&Offload<'_>>) {
    // First, because a block that is not shown becomes text.
    reply.content.iter_mut().for_each(check_bytes);
    if reply.is_object {
        fit_object(reply, max, keep, offload);
    } else {
        fit_texts(reply, 0, max, keep, offload);
        if let Some(value) = &mut reply.structured {
            fit_structured(value, &reply.id, max, keep, offload);
        }
    }
}

/// Where to offload the full text of a reply.
pub(crate) struct Offload<'a> {
    pub(crate) kept: &'a ResultStore,
    pub(crate) cx: &'a Context,
}

impl Offload<'_> {
    fn write(&self, id: &str, text: &str) -> io::Result<PathBuf> {
        let file = self.kept.keep(id, text)?;
        self.cx.record_kept_file(file.clone());
        Ok(file)
    }
}

/// Cuts the structured value of a reply whose text is something else.
fn fit_structured(value: &mut Value, id: &str, max: usize, keep: Cut, offload: Option<&Offload<'_>>) {
    if json_fits(value, max) {
        return;
    }
    let uncut = value.clone();
    let room = max - ROOM_FOR_NOTICE.min(max / 2);
    let cut = cut_json(value, room, keep).unwrap_or_default();
    let note = json!({"whole": offload_text(offload, id, &readable(&uncut, &cut)).path()});
    if let Value::Object(object) = value
        && length(&note.to_string()) + r#","cut":"#.len() <= max - room
    {
        object.entry("cut").or_insert(note);
    }
}

/// Cuts the value of a reply whose text is that value, and writes it to the first block. Later blocks, such as notes,
/// stay.
fn fit_object(reply: &mut Reply, max: usize, keep: Cut, offload: Option<&Offload<'_>>) {
    let Some(value) = &mut reply.structured else { return };
    let others: usize = reply.content.iter().skip(1).filter_map(text_of).map(length).sum();
    let room = max.saturating_sub(others).max(max / 2);
    let mut text = value.to_string();
    let mut notice = None;
    // A character has at least one byte, so most replies need no counting.
    if text.len() > room && length(&text) > room {
        let uncut = value.clone();
        let uncut_length = length(&text);
        let cut = cut_json(value, room - ROOM_FOR_NOTICE.min(room / 2), keep).unwrap_or_default();
        let whole = offload_text(offload, &reply.id, &readable(&uncut, &cut));
        text = value.to_string();
        let fields: Vec<&str> = cut.iter().take(3).map(|field| field.path.as_str()).collect();
        let note = json!({"fields": fields, "whole": whole.path()});
        let note_length = length(&note.to_string()) + r#","cut":"#.len();
        match value {
            Value::Object(object) if !object.contains_key("cut") && length(&text) + note_length <= room => {
                object.insert("cut".into(), note);
                text = value.to_string();
            }
            _ => notice = Some(marker(uncut_length.saturating_sub(length(&text)), &whole)),
        }
    }
    if let Some(short) = cut_text(&text, max, Cut::Start, &|_| String::new()) {
        text = short;
    }
    let used = length(&text);
    match reply.content.first_mut().map(|block| &mut block.content) {
        Some(Content::Text(first)) => *first = text,
        _ => reply.content.insert(0, Block::text(text)),
    }
    if let Some(notice) = notice.filter(|notice| used + others + length(notice) <= max) {
        reply.content.push(Block::text(notice));
    }
    fit_texts(reply, 1, max - used, keep, offload);
}

/// The text to offload for a value, in lines that a model can read in parts: the one string that was cut, or the whole
/// value pretty-printed.
fn readable(uncut: &Value, cut: &[CutField]) -> String {
    if let [CutField { path, .. }] = cut
        && let Some(Value::String(text)) = uncut.pointer(path)
    {
        return text.clone();
    }
    serde_json::to_string_pretty(uncut).unwrap_or_else(|_| uncut.to_string())
}

/// Cuts the texts of the blocks from `from` on to `max` characters in total: the longest ones first, so that short ones
/// stay whole.
fn fit_texts(reply: &mut Reply, from: usize, max: usize, keep: Cut, offload: Option<&Offload<'_>>) {
    let texts = || reply.content.iter().skip(from).filter_map(text_of);
    if texts().map(str::len).sum::<usize>() <= max {
        return;
    }
    let lengths: Vec<usize> = texts().map(length).collect();
    let total: usize = lengths.iter().sum();
    if total <= max {
        return;
    }
    let whole = offload_text(offload, &reply.id, &reply.full_text());
    let notice = marker(total - max, &whole);
    let mut share = share(&lengths, max);
    // With so many texts that none has room for a marker, one notice at the end stands for all.
    let is_crowded = length(&notice) >= share;
    let has_notice = is_crowded && length(&notice) < max;
    if has_notice {
        share = self::share(&lengths, max - length(&notice));
    }
    for block in reply.content.iter_mut().skip(from) {
        let Some(text) = block.content.text_mut() else { continue };
        let marker = |dropped| if is_crowded { String::new() } else { marker(dropped, &whole) };
        if let Some(cut) = cut_text(text, share, keep, &marker) {
            *text = cut;
        }
    }
    if is_crowded {
        let mut at = 0;
        reply.content.retain(|block| {
            at += 1;
            at <= from || text_of(block) != Some("")
        });
    }
    if has_notice {
        reply.content.push(Block::text(notice));
    }
}

/// Where the full text of a cut reply is.
enum FullText {
    InFile(String),
    WriteFailed(String),
    NotKept,
}

impl FullText {
    fn path(&self) -> Option<&str> {
        match self {
            FullText::InFile(path) => Some(path),
            FullText::WriteFailed(_) | FullText::NotKept => None,
        }
    }
}

fn marker(dropped: usize, whole: &FullText) -> String {
    match whole {
        FullText::InFile(path) => {
            format!("\n[{dropped} characters cut here; the whole reply is in {path}]\n")
        }
        FullText::WriteFailed(why) => {
            format!("\n[{dropped} characters cut here; the whole reply could not be kept: {why}]\n")
        }
        FullText::NotKept => format!("\n[{dropped} characters cut here]\n"),
    }
}

/// The largest length per text with which all texts fit into `room`, by binary search.
fn share(lengths: &[usize], room: usize) -> usize {
    let (mut enough, mut too_large) = (0, room + 1);
    while too_large - enough > 1 {
        let middle = enough + (too_large - enough) / 2;
        let needed: usize = lengths.iter().map(|length| length.min(&middle)).sum();
        if needed <= room { enough = middle } else { too_large = middle }
    }
    enough
}

fn text_of(block: &Block) -> Option<&str> {
    block.content.text()
}

fn length(text: &str) -> usize {
    text.chars().count()
}

fn offload_text(offload: Option<&Offload<'_>>, id: &str, text: &str) -> FullText {
    match offload.map(|offload| offload.write(id, text)) {
        Some(Ok(path)) => FullText::InFile(path.to_string_lossy().into_owned()),
        Some(Err(error)) => FullText::WriteFailed(error.to_string()),
        None => FullText::NotKept,
    }
}

/// Whether the reply has images that were not checked yet.
pub(crate) fn has_images(reply: &Reply) -> bool {
    reply.content.iter().any(|block| matches!(block.content, Content::Image { .. }) && !block.fits)
}

/// Fits every unchecked image on a blocking thread, or replaces it by a text that says why it cannot be shown.
pub(crate) async fn fit_images(reply: &mut Reply, fitter: &Arc<dyn ImageFitter>) {
    for block in reply.content.iter_mut().filter(|block| !block.fits) {
        let Content::Image { data, .. } = &mut block.content else { continue };
        let data = std::mem::take(data);
        let fitter = fitter.clone();
        let fitted = tokio::task::spawn_blocking(move || fitter.fit(data)).await;
        let problem = match fitted {
            Ok(Ok(FittedImage { media_type, data })) => {
                block.content = Content::Image { media_type, data };
                block.fits = true;
                continue;
            }
            Ok(Err(problem)) => problem.message().to_owned(),
            Err(_) => "it could not be decoded".to_owned(),
        };
        block.content = Content::Text(format!("[a picture is not shown: {problem}]"));
    }
}

/// Replaces blocks that are too large, and images that were not checked, by text.
fn check_bytes(block: &mut Block) {
    let size = block.content.bytes().map_or(0, <[u8]>::len);
    if size > MAX_BYTES {
        let what = block.content.summary().unwrap_or_default();
        block.content = Content::Text(format!("{what} is not passed on: {MAX_BYTES} bytes are the most"));
    }
    if matches!(block.content, Content::Image { .. }) && !block.fits {
        block.content = Content::Text("[a picture is not shown: it was not checked]".to_owned());
    }
}
