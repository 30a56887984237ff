//! What the web tools of all dialects share: approval of requests, and untrusted text between marks.

use haft_core::permissions::Approval;
use haft_core::{Context, Fault};
use haft_text::count_of;
use haft_web::{Content, Fence, Fetch, Fetched, Found, Target, Web};

/// The URL of a call, by the session's settings.
pub(super) fn target(url: &str, cx: &Context) -> Result<Target, Fault> {
    Target::parse(url, cx.session().extension::<Web>().egress.reach())
}

/// Whether a request needs approval: one that only reads is covered by a rule about its host; one that sends something
/// always needs it. The reason has the whole URL as it is requested, with the host in ASCII.
pub(super) fn approval(fetch: &Fetch) -> Approval {
    let url = fetch.target.url();
    match fetch.sends_more() {
        true => Approval::NeededRegardless(format!("it sends a request to `{url}`, with more than the URL")),
        false => Approval::Needed(format!("it fetches `{url}`")),
    }
}

/// The text of a page that fits into a reply, and where the whole is.
pub(super) struct Page {
    pub(super) text: String,
    pub(super) note: Option<String>,
}

/// Cuts a page to so many characters, and keeps the whole in a file.
pub(super) fn cut(text: &str, max_chars: usize, source: &str, cx: &Context) -> Page {
    let Some((end, _)) = text.char_indices().nth(max_chars) else {
        return Page { text: text.to_owned(), note: None };
    };
    // At the end of a line, if there is one near.
    let end = text[..end].rfind('\n').filter(|line| *line > end / 10 * 9).unwrap_or(end);
    let total = count_of(text.chars().count() as u64, "character");
    let note = match cx.keep_output() {
        Some(mut file) => {
            file.add(Fence::new().around(source, text).as_bytes());
            let path = file.path().display();
            format!("the page has {total} and goes on; the whole text is in `{path}`")
        }
        None => format!("the page has {total} and is cut here"),
    };
    Page { text: text[..end].to_owned(), note: Some(note) }
}

/// Where an answer comes from, for the sentence above it.
pub(super) fn source(fetched: &Fetched) -> String {
    fetched.host.clone()
}

/// What there is to say about content that is not shown.
pub(super) fn about_kept(fetched: &Fetched) -> Option<String> {
    let Content::Kept { path } = &fetched.content else { return None };
    let kind = fetched.content_type.as_deref().unwrap_or("an unknown type");
    let size = count_of(fetched.bytes, "byte");
    Some(match path {
        Some(path) => format!("it is {kind} of {size}, kept in `{}`", path.display()),
        None => format!("it is {kind} of {size}, which cannot be shown, and there is no place to keep it"),
    })
}

/// The results of a search as text.
pub(super) fn listed(found: &Found) -> String {
    let mut text = String::new();
    for (at, hit) in found.results.iter().enumerate() {
        let date = hit.date.as_ref().map(|date| format!(" ({date})")).unwrap_or_default();
        text.push_str(&format!("{}. {}{date}\n   {}\n", at + 1, hit.title, hit.url));
        if !hit.snippet.is_empty() {
            text.push_str(&format!("   {}\n", hit.snippet));
        }
    }
    text
}
