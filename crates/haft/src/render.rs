//! Holds a reply to its limit: text and values are cut and kept whole elsewhere, pictures are looked at
//! before a model is shown them. How anything is cut is the matter of `limits`.

use serde_json::{Value, json};

use crate::limits::{Cut, Kept, cut_json, cut_text};
use crate::{Audience, Block, Content, Reply};

/// The largest picture, in bytes, that model APIs take.
const MAX_IMAGE_BYTES: usize = 5 * 1024 * 1024;
/// What is left free in a value for saying that it was cut.
const ROOM_FOR_NOTICE: usize = 600;

/// Makes a reply fit: at most `max` characters of text, and as many of structured value.
pub(crate) fn fit(reply: &mut Reply, max: usize, keep: Cut, kept: Option<&Kept>) {
    if reply.is_object {
        fit_object(reply, max, keep, kept);
    } else {
        fit_text(reply, max, keep, kept);
        if let Some(value) = &mut reply.structured {
            cut_json(value, max, keep);
        }
        reply.content.iter_mut().for_each(check_image);
    }
}

fn fit_object(reply: &mut Reply, max: usize, keep: Cut, kept: Option<&Kept>) {
    let Some(value) = &mut reply.structured else { return };
    let mut text = value.to_string();
    // A character has at least one byte, so most replies need no counting.
    if text.len() > max && text.chars().count() > max {
        let whole = keep_whole(kept, &reply.id, &text);
        if let Some(cut) = cut_json(value, max.saturating_sub(ROOM_FOR_NOTICE), keep)
            && let Value::Object(object) = value
        {
            let fields: Vec<&str> = cut.iter().take(3).map(|field| field.path.as_str()).collect();
            let notice = json!({"fields": fields, "whole": whole});
            if notice.to_string().chars().count() < ROOM_FOR_NOTICE - 20 {
                object.insert("cut".into(), notice);
            }
        }
        text = value.to_string();
    }
    let audience = reply.content.first().map_or(Audience::Everyone, |block| block.audience);
    reply.content = vec![Block { content: Content::Text(text), audience }];
}

fn fit_text(reply: &mut Reply, max: usize, keep: Cut, kept: Option<&Kept>) {
    let bytes: usize = texts(reply).map(str::len).sum();
    if bytes <= max {
        return;
    }
    let mut total: usize = texts(reply).map(|text| text.chars().count()).sum();
    if total <= max {
        return;
    }
    let whole = keep_whole(kept, &reply.id, &reply.full_text());
    while total > max {
        let longest = reply.content.iter_mut().filter_map(|block| match &mut block.content {
            Content::Text(text) => Some(text),
            Content::Image { .. } => None,
        });
        let Some(longest) = longest.max_by_key(|text| text.len()) else { return };
        let length = longest.chars().count();
        let room = max.saturating_sub(total - length);
        let marker = |dropped: usize| match &whole {
            Value::String(path) => {
                format!("\n[{dropped} characters cut here; the whole reply is in {path}]\n")
            }
            _ => format!("\n[{dropped} characters cut here]\n"),
        };
        let Some(cut) = cut_text(longest, room, keep, &marker) else { return };
        total = total - length + cut.chars().count();
        *longest = cut;
    }
}

fn texts(reply: &Reply) -> impl Iterator<Item = &str> {
    reply.content.iter().filter_map(|block| match &block.content {
        Content::Text(text) => Some(text.as_str()),
        Content::Image { .. } => None,
    })
}

/// The path of the file that holds the whole text, or null where it could not be kept.
fn keep_whole(kept: Option<&Kept>, id: &str, text: &str) -> Value {
    kept.and_then(|kept| kept.keep(id, text).ok()).map_or(Value::Null, |path| json!(path))
}

/// A picture that is none, or is larger than any model takes, is replaced by words that say so.
fn check_image(block: &mut Block) {
    let Content::Image { media_type, data } = &block.content else { return };
    let problem = match image_type(data) {
        None => format!("[not shown: the bytes are no {media_type} that can be shown]"),
        Some(actual) if actual != media_type => {
            format!("[not shown: the picture is {actual}, not {media_type}]")
        }
        Some(_) if data.len() > MAX_IMAGE_BYTES => {
            format!(
                "[not shown: the picture is {} bytes; at most {MAX_IMAGE_BYTES} can be shown]",
                data.len()
            )
        }
        Some(_) => return,
    };
    block.content = Content::Text(problem);
}

/// What the first bytes say a picture is.
fn image_type(data: &[u8]) -> Option<&'static str> {
    match data {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1A, b'\n', ..] => Some("image/png"),
        [0xFF, 0xD8, 0xFF, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}
