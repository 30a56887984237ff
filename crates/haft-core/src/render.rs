//! Holds a reply to its limit: text and values are cut and kept whole elsewhere, pictures are looked at
//! before a model is shown them. How anything is cut is the matter of `limits`.

use std::io;
use std::path::PathBuf;

use serde_json::{Value, json};

use std::sync::Arc;

use crate::images::{FittedImage, ImageFitter};
use crate::limits::{Cut, CutField, KeptResults, cut_json, cut_text, json_fits};
use crate::replies::{Block, Content};
use crate::{Context, Reply};

/// What is left free in a value for saying that it was cut.
const ROOM_FOR_NOTICE: usize = 600;

/// The most bytes of a sound or a file that are passed on.
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// Makes a reply fit: at most `max` characters of text, and as many of structured value.
pub(crate) fn fit(reply: &mut Reply, max: usize, keep: Cut, kept: Option<&Keeper<'_>>) {
    // First, because what is not shown becomes text.
    reply.content.iter_mut().for_each(check_bytes);
    if reply.is_object {
        fit_object(reply, max, keep, kept);
    } else {
        fit_texts(reply, 0, max, keep, kept);
        if let Some(value) = &mut reply.structured {
            fit_beside(value, &reply.id, max, keep, kept);
        }
    }
}

/// Where the whole of a reply is kept, and who remembers that.
pub(crate) struct Keeper<'a> {
    pub(crate) kept: &'a KeptResults,
    pub(crate) cx: &'a Context,
}

impl Keeper<'_> {
    fn keep(&self, id: &str, text: &str) -> io::Result<PathBuf> {
        let file = self.kept.keep(id, text)?;
        self.cx.record_kept_file(file.clone());
        Ok(file)
    }
}

/// A value beside a text is cut and kept like a text of its own.
fn fit_beside(value: &mut Value, id: &str, max: usize, keep: Cut, kept: Option<&Keeper<'_>>) {
    if json_fits(value, max) {
        return;
    }
    let uncut = value.clone();
    let room = max - ROOM_FOR_NOTICE.min(max / 2);
    let cut = cut_json(value, room, keep).unwrap_or_default();
    let told = json!({"whole": keep_whole(kept, id, &readable(&uncut, &cut)).path()});
    if let Value::Object(object) = value
        && length(&told.to_string()) + r#","cut":"#.len() <= max - room
    {
        object.entry("cut").or_insert(told);
    }
}

/// The value becomes the first text; what stands after it, such as notes, stays.
fn fit_object(reply: &mut Reply, max: usize, keep: Cut, kept: Option<&Keeper<'_>>) {
    let Some(value) = &mut reply.structured else { return };
    let others: usize = reply.content.iter().skip(1).filter_map(text_of).map(length).sum();
    let room = max.saturating_sub(others).max(max / 2);
    let mut text = value.to_string();
    let mut notice = None;
    // A character has at least one byte, so most replies need no counting.
    if text.len() > room && length(&text) > room {
        let uncut = value.clone();
        let lost = length(&text);
        let cut = cut_json(value, room - ROOM_FOR_NOTICE.min(room / 2), keep).unwrap_or_default();
        let whole = keep_whole(kept, &reply.id, &readable(&uncut, &cut));
        text = value.to_string();
        let fields: Vec<&str> = cut.iter().take(3).map(|field| field.path.as_str()).collect();
        let told = json!({"fields": fields, "whole": whole.path()});
        let told_length = length(&told.to_string()) + r#","cut":"#.len();
        match value {
            Value::Object(object) if !object.contains_key("cut") && length(&text) + told_length <= room => {
                object.insert("cut".into(), told);
                text = value.to_string();
            }
            _ => notice = Some(marker(lost.saturating_sub(length(&text)), &whole)),
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
    fit_texts(reply, 1, max - used, keep, kept);
}

/// What is kept of a value, so that it can be read by lines: the one text that was cut, or all of it laid out.
fn readable(uncut: &Value, cut: &[CutField]) -> String {
    if let [CutField { path, .. }] = cut
        && let Some(Value::String(text)) = uncut.pointer(path)
    {
        return text.clone();
    }
    serde_json::to_string_pretty(uncut).unwrap_or_else(|_| uncut.to_string())
}

/// Cuts the texts from a block on to `max` characters together: the longest ones, so that short ones stay.
fn fit_texts(reply: &mut Reply, from: usize, max: usize, keep: Cut, kept: Option<&Keeper<'_>>) {
    let texts = || reply.content.iter().skip(from).filter_map(text_of);
    if texts().map(str::len).sum::<usize>() <= max {
        return;
    }
    let lengths: Vec<usize> = texts().map(length).collect();
    let total: usize = lengths.iter().sum();
    if total <= max {
        return;
    }
    let whole = keep_whole(kept, &reply.id, &reply.full_text());
    let notice = marker(total - max, &whole);
    let mut share = share(&lengths, max);
    // Where there are so many texts that none has room to say that it was cut, it is said once for all.
    let once = length(&notice) >= share;
    let said_once = once && length(&notice) < max;
    if said_once {
        share = self::share(&lengths, max - length(&notice));
    }
    for block in reply.content.iter_mut().skip(from) {
        let Some(text) = block.content.text_mut() else { continue };
        let marker = |dropped| if once { String::new() } else { marker(dropped, &whole) };
        if let Some(cut) = cut_text(text, share, keep, &marker) {
            *text = cut;
        }
    }
    if once {
        let mut at = 0;
        reply.content.retain(|block| {
            at += 1;
            at <= from || text_of(block) != Some("")
        });
    }
    if said_once {
        reply.content.push(Block::text(notice));
    }
}

/// Where the whole of something that was cut is.
enum Whole {
    In(String),
    Lost(String),
    Nowhere,
}

impl Whole {
    fn path(&self) -> Option<&str> {
        match self {
            Whole::In(path) => Some(path),
            Whole::Lost(_) | Whole::Nowhere => None,
        }
    }
}

fn marker(dropped: usize, whole: &Whole) -> String {
    match whole {
        Whole::In(path) => format!("\n[{dropped} characters cut here; the whole reply is in {path}]\n"),
        Whole::Lost(why) => {
            format!("\n[{dropped} characters cut here; the whole reply could not be kept: {why}]\n")
        }
        Whole::Nowhere => format!("\n[{dropped} characters cut here]\n"),
    }
}

/// How long each text may be so that all fit into `room`.
fn share(lengths: &[usize], room: usize) -> usize {
    let (mut enough, mut too_much) = (0, room + 1);
    while too_much - enough > 1 {
        let middle = enough + (too_much - enough) / 2;
        let needed: usize = lengths.iter().map(|length| length.min(&middle)).sum();
        if needed <= room { enough = middle } else { too_much = middle }
    }
    enough
}

fn text_of(block: &Block) -> Option<&str> {
    block.content.text()
}

fn length(text: &str) -> usize {
    text.chars().count()
}

fn keep_whole(kept: Option<&Keeper<'_>>, id: &str, text: &str) -> Whole {
    match kept.map(|keeper| keeper.keep(id, text)) {
        Some(Ok(path)) => Whole::In(path.to_string_lossy().into_owned()),
        Some(Err(error)) => Whole::Lost(error.to_string()),
        None => Whole::Nowhere,
    }
}

/// Whether there are pictures that nobody has looked at.
pub(crate) fn has_images(reply: &Reply) -> bool {
    reply.content.iter().any(|block| matches!(block.content, Content::Image { .. }) && !block.fits)
}

/// Makes every picture one that a model can be shown, or says in words why it cannot. Where there is none,
/// nothing is done; where there is one, it is decoded on a thread that may block.
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

/// Nothing that has not been looked at is shown, and nothing that nobody could use.
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
