//! HTML to Markdown. The page is first rewritten to plain, balanced markup with bounds (`rewrite`), because the parser
//! behind the converter is quadratic in depth and recursive; then it is converted on a thread with a stack that fits the
//! bounds.

mod rewrite;
mod tags;

use std::thread;

use haft_core::{Fault, FaultKind};
use haft_sandbox::egress::Url;
use htmd::HtmlToMarkdown;
use htmd::options::{BulletListMarker, Options};
use tokio::sync::oneshot;

pub(super) use rewrite::Rewritten;
use rewrite::rewrite;

/// The stack of the converting thread: several times what [`rewrite::MAX_DEPTH`] needs.
const STACK_BYTES: usize = 16 * 1024 * 1024;

/// A converted page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Markdown {
    /// The page.
    pub markdown: String,
    /// Its title.
    pub title: Option<String>,
    /// What was left out.
    pub notes: Vec<String>,
}

/// Converts a page, on a thread of its own. Relative links are resolved against `base`.
pub async fn convert(html: String, base: Url) -> Result<Markdown, Fault> {
    let (done, converted) = oneshot::channel();
    let work = move || {
        // Nobody waits for the result of a call that was cancelled.
        let _ = done.send(convert_here(&html, &base));
    };
    let failed =
        |why: String| Fault::new(FaultKind::Internal, format!("the page could not be converted: {why}"));
    let spawned = thread::Builder::new().name("haft-markdown".to_owned()).stack_size(STACK_BYTES).spawn(work);
    spawned.map_err(|error| failed(error.to_string()))?;
    // The sender is dropped if the converter panics.
    converted.await.map_err(|_| failed("the converter crashed".to_owned()))?
}

fn convert_here(html: &str, base: &Url) -> Result<Markdown, Fault> {
    let Rewritten { html, title, is_too_deep, is_too_long } = rewrite(html, base);
    let options = Options {
        bullet_list_marker: BulletListMarker::Dash,
        ul_bullet_spacing: 1,
        ol_number_spacing: 1,
        ..Options::default()
    };
    let converter = HtmlToMarkdown::builder().options(options).build();
    let markdown = converter.convert(&html).map_err(Fault::from)?;
    let mut notes = Vec::new();
    if is_too_deep {
        notes.push(format!(
            "elements nested deeper than {} are shown without their structure",
            rewrite::MAX_DEPTH
        ));
    }
    if is_too_long {
        notes.push(format!("the page is cut after {} elements", rewrite::MAX_ELEMENTS));
    }
    Ok(Markdown { markdown, title, notes })
}
