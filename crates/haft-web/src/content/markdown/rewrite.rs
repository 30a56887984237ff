//! Rewrites a page to balanced markup of the elements that Markdown knows, in one pass: no comments, scripts or hidden
//! elements, no attributes but those that are shown, no deeper than [`MAX_DEPTH`] and no more than [`MAX_ELEMENTS`]. End
//! tags that HTML implies are written out, so that the parser behind finds nothing to repair.

use haft_sandbox::egress::Url;

use super::tags::{self, Role, Token, Tokens, attributes, role};

/// The deepest nesting of elements. Pages that people write stay far below.
pub(super) const MAX_DEPTH: usize = 256;
/// The most elements.
pub(super) const MAX_ELEMENTS: usize = 250_000;
/// How far a tag looks for an open element, so that a page cannot make it look far often.
const MAX_LOOK: usize = MAX_DEPTH;
/// The longest title, in characters.
const MAX_TITLE: usize = 300;

/// A rewritten page.
#[derive(Debug, Default)]
pub(crate) struct Rewritten {
    pub(super) html: String,
    pub(super) title: Option<String>,
    pub(super) is_too_deep: bool,
    pub(super) is_too_long: bool,
}

/// An element that is open.
struct Open<'a> {
    /// The name in the page.
    name: &'a str,
    /// The name in the result, if the element is in it.
    written: Option<&'a str>,
}

struct Writer<'a> {
    out: Rewritten,
    stack: Vec<Open<'a>>,
    /// How many elements are open for each [`bucket`] of names: most tags look for one that is not there.
    open: [u32; BUCKETS],
    /// How many open elements are in the result.
    depth: usize,
    elements: usize,
    /// How many elements were open when a dropped one began.
    dropped_at: Option<usize>,
    base: Url,
    has_base: bool,
}

/// Rewrites a page. Relative links are resolved against `base`, or against the page's own `<base>`.
pub(super) fn rewrite(html: &str, base: &Url) -> Rewritten {
    // Names are compared in lower case; few pages have others.
    let mut writer = Writer {
        out: Rewritten { html: String::with_capacity(html.len() / 2), ..Rewritten::default() },
        stack: Vec::new(),
        open: [0; BUCKETS],
        depth: 0,
        elements: 0,
        dropped_at: None,
        base: base.clone(),
        has_base: false,
    };
    let mut tokens = Tokens { rest: html };
    while let Some(token) = tokens.next() {
        match token {
            Token::Text(text) if writer.dropped_at.is_none() => writer.out.html.push_str(text),
            Token::Less if writer.dropped_at.is_none() => writer.out.html.push_str("&lt;"),
            Token::Text(_) | Token::Less => {}
            Token::Start { name, attributes } => writer.start(name, attributes, &mut tokens),
            Token::End { name } => writer.end(name),
        }
        if writer.elements > MAX_ELEMENTS {
            writer.out.is_too_long = true;
            break;
        }
    }
    writer.close_to(0);
    writer.out
}

/// How many buckets names are divided into.
const BUCKETS: usize = 256;

/// The bucket of a name in any case.
fn bucket(name: &str) -> usize {
    let byte = |at: usize| usize::from(name.as_bytes().get(at).map_or(0, u8::to_ascii_lowercase));
    (byte(0) * 31 + byte(name.len().saturating_sub(1)) * 7 + name.len()) % BUCKETS
}

/// The longest name of an element that has a role of its own.
const MAX_NAME: usize = 10;

/// A name in lower case, if it is one that matters; others are transparent.
fn lower<'b>(name: &str, buffer: &'b mut [u8; MAX_NAME]) -> &'b str {
    let Some(target) = buffer.get_mut(..name.len()) else { return "" };
    target.copy_from_slice(name.as_bytes());
    target.make_ascii_lowercase();
    std::str::from_utf8(target).unwrap_or_default()
}

impl<'a> Writer<'a> {
    fn start(&mut self, name: &'a str, written: &'a str, tokens: &mut Tokens<'a>) {
        let mut buffer = [0; MAX_NAME];
        let lower = lower(name, &mut buffer);
        let role = role(lower);
        match role {
            Role::RawDropped => {
                tokens.raw_text(name);
                return;
            }
            Role::Title | Role::RawText => {
                let text = tokens.raw_text(name);
                if role == Role::RawText && self.dropped_at.is_none() {
                    self.out.html.push_str(&text.replace('<', "&lt;"));
                } else if self.out.title.is_none() && self.dropped_at.is_none() {
                    let words = unescaped(text);
                    let words: Vec<&str> = words.split_whitespace().collect();
                    self.out.title = Some(words.join(" ").chars().take(MAX_TITLE).collect());
                }
                return;
            }
            Role::Nothing => {
                if lower == "base" && !self.has_base {
                    let href = attributes(written).find(|(name, _)| name.eq_ignore_ascii_case("href"));
                    if let Some(base) = href.and_then(|(_, href)| self.base.join(&unescaped(href)).ok()) {
                        self.base = base;
                        self.has_base = true;
                    }
                }
                return;
            }
            _ => {}
        }
        if self.dropped_at.is_none() {
            self.close_implied(lower, role);
        }
        let is_dropped = role == Role::Dropped || is_hidden(written);
        if role == Role::Void {
            if self.dropped_at.is_none() && !is_dropped {
                self.elements += 1;
                self.write_tag(lower, written);
            }
            return;
        }
        if is_dropped && self.dropped_at.is_none() {
            self.dropped_at = Some(self.stack.len());
        }
        let is_kept = self.dropped_at.is_none() && !matches!(role, Role::Transparent | Role::Dropped);
        let is_too_deep = is_kept && self.depth >= MAX_DEPTH;
        self.out.is_too_deep |= is_too_deep;
        let kept = (is_kept && !is_too_deep).then_some(if role == Role::Division { "div" } else { name });
        if kept.is_some() {
            self.elements += 1;
            self.depth += 1;
            match role {
                Role::Division => self.write_tag("div", ""),
                _ => self.write_tag(lower, written),
            }
        }
        self.open[bucket(name)] += 1;
        self.stack.push(Open { name, written: kept });
    }

    /// Ends what a start tag ends without saying so.
    fn close_implied(&mut self, name: &str, role: Role) {
        if matches!(role, Role::Block | Role::Division) || name == "hr" {
            const CELL: [&str; 4] = ["table", "td", "th", "caption"];
            self.close_nearest(&["p"], &CELL);
        }
        if let Some((ends, stops)) = tags::implied_end(name) {
            self.close_nearest(ends, stops);
        }
    }

    /// Ends the innermost of these elements, unless one that stops the search lies in between.
    fn close_nearest(&mut self, ends: &[&str], stops: &[&str]) {
        if ends.iter().all(|name| self.open[bucket(name)] == 0) {
            return;
        }
        for (at, open) in self.stack.iter().enumerate().rev().take(MAX_LOOK) {
            let is_one = |names: &[&str]| names.iter().any(|name| open.name.eq_ignore_ascii_case(name));
            if is_one(ends) {
                return self.close_to(at);
            }
            if is_one(stops) {
                return;
            }
        }
    }

    fn end(&mut self, name: &'a str) {
        let mut buffer = [0; MAX_NAME];
        let lower = lower(name, &mut buffer);
        if lower == "br" && self.dropped_at.is_none() {
            self.elements += 1;
            return self.write_tag("br", "");
        }
        if self.open[bucket(name)] == 0 {
            return;
        }
        for (at, open) in self.stack.iter().enumerate().rev().take(MAX_LOOK) {
            if open.name.eq_ignore_ascii_case(name) {
                return self.close_to(at);
            }
            let mut buffer = [0; MAX_NAME];
            if tags::is_boundary(self::lower(open.name, &mut buffer), lower) {
                return;
            }
        }
    }

    /// Ends elements until so many are open.
    fn close_to(&mut self, count: usize) {
        while self.stack.len() > count {
            let Some(Open { name, written }) = self.stack.pop() else { return };
            self.open[bucket(name)] -= 1;
            if let Some(name) = written {
                self.depth -= 1;
                let html = &mut self.out.html;
                html.push_str("</");
                html.push_str(name);
                html.push('>');
            }
            if self.dropped_at == Some(self.stack.len()) {
                self.dropped_at = None;
            }
        }
    }

    /// Writes a start tag with the attributes that Markdown shows.
    fn write_tag(&mut self, name: &str, written: &str) {
        let mut picture_source = None;
        let mut kept: Vec<(&str, String)> = Vec::new();
        let shown: &[&str] = match name {
            "a" => &["href"],
            "img" => &["src", "alt"],
            "ol" => &["start"],
            "code" | "pre" => &["class"],
            _ => &[],
        };
        if !shown.is_empty() {
            for (attribute, value) in attributes(written) {
                let Some(attribute) = shown.iter().find(|shown| attribute.eq_ignore_ascii_case(shown)) else {
                    continue;
                };
                if kept.iter().any(|(name, _)| name == attribute) {
                    continue;
                }
                match *attribute {
                    "href" | "src" => {
                        let link = self.link(value);
                        picture_source = picture_source.or(link.clone());
                        kept.extend(link.map(|link| (*attribute, link)));
                    }
                    _ => kept.push((attribute, unescaped(value))),
                }
            }
        }
        // A picture without a source is its description.
        if name == "img" && picture_source.is_none() {
            if let Some((_, description)) = kept.iter().find(|(name, _)| *name == "alt") {
                let description = escaped(description);
                self.out.html.push_str(&description);
            }
            return;
        }
        self.out.html.push('<');
        self.out.html.push_str(name);
        for (name, value) in kept {
            let value = escaped(&value);
            self.out.html.push_str(&format!(" {name}=\"{value}\""));
        }
        self.out.html.push('>');
    }

    /// A link, absolute; `None` for one that leads nowhere else.
    fn link(&self, value: &str) -> Option<String> {
        let value = unescaped(value);
        let value = value.trim();
        let begins = |with: &str| value.get(..with.len()).is_some_and(|head| head.eq_ignore_ascii_case(with));
        let is_code = ["javascript:", "data:", "vbscript:", "blob:"].iter().any(|scheme| begins(scheme));
        if value.is_empty() || value.starts_with('#') || is_code {
            return None;
        }
        Some(self.base.join(value).map_or_else(|_| value.to_owned(), String::from))
    }
}

/// Whether a tag says that its element is not shown.
fn is_hidden(written: &str) -> bool {
    if written.len() < "hidden".len() {
        return false;
    }
    attributes(written).any(|(name, value)| {
        if name.eq_ignore_ascii_case("hidden") {
            return true;
        }
        name.eq_ignore_ascii_case("style") && {
            let style: String =
                value.chars().filter(|c| !c.is_whitespace()).collect::<String>().to_ascii_lowercase();
            ["display:none", "visibility:hidden", "font-size:0", "opacity:0"].iter().any(|hidden| {
                let behind = style.find(hidden).map(|at| &style[at + hidden.len()..]);
                // `opacity:0.5` and `font-size:0.8em` can be seen.
                behind.is_some_and(|behind| {
                    !behind.starts_with('.') && !behind.starts_with(|c: char| c.is_ascii_digit())
                })
            })
        }
    })
}

/// A value with the entities that matter in links and titles decoded.
fn unescaped(value: &str) -> String {
    if !value.contains('&') {
        return value.to_owned();
    }
    // `&amp;` last, so that nothing is decoded twice.
    [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&#x27;", "'"),
        ("&#38;", "&"),
        ("&amp;", "&"),
    ]
    .iter()
    .fold(value.to_owned(), |text, (entity, c)| text.replace(entity, c))
}

fn escaped(value: &str) -> String {
    if !value.contains(['&', '<', '"']) {
        return value.to_owned();
    }
    value.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests;
