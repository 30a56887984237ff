//! `WebFetch`: fetches a page and shows it beside a question.

use haft_core::images::FittedImage;
use haft_core::limits::Cut;
use haft_core::permissions::Approval;
use haft_core::replies::Block;
use haft_core::{Category, Context, Fault, Reply, Spec, Tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::web;
use haft_ops::Piece;
use haft_text::count_of;
use haft_web::{Content, Fence, Fetch, Fetched};

/// The longest page in a reply, in characters; the whole is kept in a file.
const MAX_PAGE_CHARS: usize = 50_000;
/// The longest reply, in characters: a page, its marks, and what is said about it.
const MAX_RESULT_CHARS: usize = MAX_PAGE_CHARS + 10_000;

/// Fetches a page.
pub(crate) struct WebFetch;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// The URL to fetch
    #[schemars(example = "https://example.org/page")]
    url: String,
    /// What to find out from the page
    #[schemars(example = "What does it say about installing?")]
    prompt: String,
}

impl Tool for WebFetch {
    const NAME: &'static str = "WebFetch";
    const DESCRIPTION: &'static str = include_str!("web_fetch.md");
    type Input = Input;
    type Op = Fetch;

    fn spec(spec: Spec) -> Spec {
        spec.category(Category::Web).read_only().max_result(MAX_RESULT_CHARS, Cut::Start)
    }

    fn lower(input: &Input, cx: &Context) -> Result<Fetch, Fault> {
        let prompt = Some(input.prompt.trim().to_owned()).filter(|prompt| !prompt.is_empty());
        Ok(Fetch { prompt, ..Fetch::page(web::target(&input.url, cx)?) })
    }

    fn approval(_input: &Input, op: &Fetch, _cx: &Context) -> Approval {
        web::approval(op)
    }

    fn render(input: &Input, output: Fetched, cx: &Context) -> Result<Reply, Fault> {
        let file = match &output.content {
            Content::Kept { path } => path.as_ref().map(|path| path.display().to_string()),
            _ => None,
        };
        let structured = json!({
            "url": output.url,
            "final_url": output.final_url,
            "code": output.status,
            "codeText": output.status_text,
            "bytes": output.bytes,
            "durationMs": u64::try_from(output.took.as_millis()).unwrap_or(u64::MAX),
            "contentType": output.content_type,
            "cached": output.is_cached,
            "redirect": output.redirect.as_ref().map(|redirect| &redirect.to),
            "file": file,
        });
        let reply = shown(input, &output, cx).structured(structured);
        Ok(output.notes.iter().fold(reply, |reply, note| reply.internal(format!("note: {note}"))))
    }

    fn preview_use(input: &Input) -> Option<String> {
        Some(input.url.clone())
    }
}

/// The page between marks, under a line about it and the question.
fn shown(input: &Input, output: &Fetched, cx: &Context) -> Reply {
    let kind = output.content_type.as_deref().unwrap_or("unknown type");
    let cached = if output.is_cached { ", fetched before" } else { "" };
    let head = format!(
        "{} ({} {}, {kind}, {}{cached})\nprompt: {}",
        output.final_url,
        output.status,
        output.status_text,
        count_of(output.bytes, "byte"),
        input.prompt.trim(),
    );
    if let Some(redirect) = &output.redirect {
        let text = format!(
            "{head}\n\nThe URL redirects to {} and was not followed: {}. Fetch that URL itself if it is what you need.",
            redirect.to, redirect.why
        );
        return Reply::text(text);
    }
    let (fence, source) = (Fence::new(), web::source(output));
    if let Some(answer) = &output.answer {
        return Reply::text(format!("{head}\n\n{}", fence.around(&source, answer)));
    }
    match &output.content {
        Content::Empty => Reply::text(format!("{head}\n\nThe page is empty.")),
        Content::Text(text) => {
            let page = web::cut(text, MAX_PAGE_CHARS, &source, cx);
            let note = page.note.map(|note| format!("\n\n{note}")).unwrap_or_default();
            Reply::text(format!("{head}\n\n{}{note}", fence.around(&source, &page.text)))
        }
        Content::Pieces(pieces) => {
            let mut left = MAX_PAGE_CHARS;
            let mut blocks = vec![Block::text(format!("{head}\n\n{}", fence.open(&source)))];
            let mut notes = Vec::new();
            for piece in pieces {
                match piece {
                    Piece::Text(text) => {
                        let page = web::cut(text, left, &source, cx);
                        left = left.saturating_sub(page.text.chars().count());
                        blocks.push(Block::text(page.text.trim_end()));
                        notes.extend(page.note);
                    }
                    Piece::Picture(picture) => blocks.push(Block::from(FittedImage::from(picture.clone()))),
                }
            }
            blocks.push(Block::text(fence.close()));
            blocks.extend(notes.into_iter().map(Block::text));
            Reply::blocks(blocks)
        }
        _ => Reply::text(format!("{head}\n\n{}", web::about_kept(output).unwrap_or_default())),
    }
}
