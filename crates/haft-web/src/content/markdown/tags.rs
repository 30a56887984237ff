//! What each element of HTML means for Markdown, and the tokens of a page.

/// How an element is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Kept; it ends an open paragraph.
    Block,
    /// Kept; part of a text.
    Inline,
    /// Becomes a `div`.
    Division,
    /// Kept; it has no content.
    Void,
    /// Dropped; its content stays.
    Transparent,
    /// Dropped, and has no content.
    Nothing,
    /// Dropped with its content, which is markup.
    Dropped,
    /// Dropped with its content, which is not markup.
    RawDropped,
    /// The title: text that is not markup.
    Title,
    /// Text that is not markup.
    RawText,
}

/// The role of an element by its name in lower case.
pub(super) fn role(name: &str) -> Role {
    match name {
        "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "p" | "div" | "section" | "article" | "main" | "header"
        | "footer" | "nav" | "aside" | "ul" | "ol" | "li" | "dl" | "dt" | "dd" | "pre" | "blockquote"
        | "table" | "thead" | "tbody" | "tfoot" | "tr" | "th" | "td" | "caption" | "figure"
        | "figcaption" | "details" | "summary" | "address" => Role::Block,
        "a" | "b" | "strong" | "i" | "em" | "code" | "del" | "s" | "kbd" | "samp" | "sup" | "sub" => {
            Role::Inline
        }
        "form" | "fieldset" | "center" | "hgroup" | "search" | "menu" | "dir" | "legend" | "dialog" => {
            Role::Division
        }
        "br" | "hr" | "img" => Role::Void,
        "input" | "wbr" | "meta" | "link" | "base" | "col" | "embed" | "source" | "track" | "area"
        | "param" | "frame" | "keygen" | "bgsound" => Role::Nothing,
        "svg" | "math" | "template" | "noscript" | "object" | "canvas" | "audio" | "video" | "select"
        | "datalist" | "map" => Role::Dropped,
        "script" | "style" | "iframe" | "noembed" | "noframes" => Role::RawDropped,
        "title" => Role::Title,
        "textarea" | "xmp" => Role::RawText,
        _ => Role::Transparent,
    }
}

/// Elements that an open element of the same kind ends at, and what stops the search for one.
pub(super) fn implied_end(name: &str) -> Option<(&'static [&'static str], &'static [&'static str])> {
    const CELL: &[&str] = &["table", "td", "th", "caption"];
    Some(match name {
        "li" => (&["li"], &["ul", "ol", "table", "td", "th", "caption"]),
        "dt" | "dd" => (&["dt", "dd"], &["dl", "table", "td", "th", "caption"]),
        "tr" => (&["tr", "caption"], &["table"]),
        "td" | "th" => (&["td", "th", "caption"], &["tr", "table"]),
        "thead" | "tbody" | "tfoot" => (&["thead", "tbody", "tfoot", "caption"], &["table"]),
        "a" => (&["a"], CELL),
        "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => (
            &["h1", "h2", "h3", "h4", "h5", "h6"],
            &["div", "section", "article", "li", "table", "td", "th", "caption"],
        ),
        _ => return None,
    })
}

/// Elements that an end tag of another element does not reach across.
pub(super) fn is_boundary(name: &str, of: &str) -> bool {
    match of {
        "table" => false,
        "tr" | "td" | "th" | "thead" | "tbody" | "tfoot" | "caption" => name == "table",
        _ => matches!(name, "table" | "td" | "th" | "caption"),
    }
}

/// A piece of a page.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    Text(&'a str),
    /// A `<` that begins no tag.
    Less,
    Start {
        name: &'a str,
        attributes: &'a str,
    },
    End {
        name: &'a str,
    },
}

/// Splits a page into tokens. Comments, declarations and an unfinished tag at the end are left out.
pub(super) struct Tokens<'a> {
    pub(super) rest: &'a str,
}

impl<'a> Tokens<'a> {
    /// Skips the text up to the end tag of an element whose content is not markup, and returns it.
    pub(super) fn raw_text(&mut self, name: &str) -> &'a str {
        let mut from = 0;
        while let Some(found) = memchr::memchr(b'<', &self.rest.as_bytes()[from..]) {
            let at = from + found;
            let behind = &self.rest.as_bytes()[at + 1..];
            let is_end = behind.first() == Some(&b'/')
                && behind
                    .get(1..=name.len())
                    .is_some_and(|found| found.eq_ignore_ascii_case(name.as_bytes()))
                && behind
                    .get(name.len() + 1)
                    .is_none_or(|next| next.is_ascii_whitespace() || b"/>".contains(next));
            if is_end {
                let text = &self.rest[..at];
                self.rest = &self.rest[at..];
                return text;
            }
            from = at + 1;
        }
        std::mem::take(&mut self.rest)
    }

    fn skip_comment(&mut self) {
        // The tokenizer of HTML takes `<!-->` and `<!--->` for whole comments.
        let inside = &self.rest[4..];
        let end = if inside.starts_with('>') {
            Some(1)
        } else if inside.starts_with("->") {
            Some(2)
        } else {
            let plain = memchr::memmem::find(inside.as_bytes(), b"-->").map(|at| at + 3);
            let odd = memchr::memmem::find(&inside.as_bytes()[..plain.unwrap_or(inside.len())], b"--!>");
            odd.map(|at| at + 4).or(plain)
        };
        self.rest = end.map_or("", |end| &inside[end..]);
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        loop {
            if self.rest.is_empty() {
                return None;
            }
            let at = memchr::memchr(b'<', self.rest.as_bytes()).unwrap_or(self.rest.len());
            if at > 0 {
                let (text, rest) = self.rest.split_at(at);
                self.rest = rest;
                return Some(Token::Text(text));
            }
            if self.rest.starts_with("<!--") {
                self.skip_comment();
                continue;
            }
            let next = self.rest.as_bytes().get(1).copied().unwrap_or_default();
            let is_end = next == b'/' && self.rest.as_bytes().get(2).is_some_and(u8::is_ascii_alphabetic);
            if next == b'!' || next == b'?' || (next == b'/' && !is_end) {
                let end = memchr::memchr(b'>', self.rest.as_bytes());
                self.rest = end.map_or("", |end| &self.rest[end + 1..]);
                continue;
            }
            if !is_end && !next.is_ascii_alphabetic() {
                self.rest = &self.rest[1..];
                return Some(Token::Less);
            }
            let begin = if is_end { 2 } else { 1 };
            let Some(end) = tag_end(self.rest.as_bytes(), begin) else {
                self.rest = "";
                return None;
            };
            let inside = &self.rest[begin..end];
            self.rest = &self.rest[end + 1..];
            let name_end = inside.find(|c: char| c.is_ascii_whitespace() || c == '/').unwrap_or(inside.len());
            let (name, attributes) = inside.split_at(name_end);
            return Some(if is_end { Token::End { name } } else { Token::Start { name, attributes } });
        }
    }
}

/// Where the `>` of a tag is: a `>` in a quoted value is part of the value.
fn tag_end(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    let mut is_value = false;
    while let Some(found) = bytes.get(at) {
        match found {
            b'>' => return Some(at),
            b'=' => is_value = true,
            quote @ (b'"' | b'\'') if is_value => {
                at += 1 + memchr::memchr(*quote, &bytes[at + 1..])?;
                is_value = false;
            }
            byte if byte.is_ascii_whitespace() => {}
            _ => is_value = false,
        }
        at += 1;
    }
    None
}

/// The attributes of a start tag: names as they are written, values with their entities.
pub(super) fn attributes(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
        if rest.is_empty() {
            return None;
        }
        // An `=` at the start is part of the name.
        let is_end = |(at, c): (usize, char)| at > 0 && (c.is_ascii_whitespace() || c == '/' || c == '=');
        let end = rest.char_indices().find(|found| is_end(*found)).map_or(rest.len(), |(at, _)| at);
        let (name, behind) = rest.split_at(end);
        let Some(value) = behind.trim_start_matches(|c: char| c.is_ascii_whitespace()).strip_prefix('=')
        else {
            rest = behind;
            return Some((name, ""));
        };
        let value = value.trim_start_matches(|c: char| c.is_ascii_whitespace());
        let quoted = value.strip_prefix(['"', '\'']).map(|inside| (inside, value.as_bytes()[0]));
        let (value, behind) = match quoted {
            Some((inside, quote)) => {
                let end = memchr::memchr(quote, inside.as_bytes()).unwrap_or(inside.len());
                (&inside[..end], inside.get(end + 1..).unwrap_or_default())
            }
            None => value.split_at(value.find(|c: char| c.is_ascii_whitespace()).unwrap_or(value.len())),
        };
        rest = behind;
        Some((name, value))
    })
}
