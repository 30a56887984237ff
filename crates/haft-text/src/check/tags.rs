//! HTML: tags without a partner. A browser reads anything, so only elements that must be closed count, and
//! of everything else no more is known than how to get past it.

use super::{Checker, MAX_PROBLEMS, Places, Problem};

/// HTML.
pub(super) struct Html;

/// What has no end, or need not have one.
const OPEN: &[&str] = &[
    "area", "base", "body", "br", "col", "colgroup", "dd", "dt", "embed", "head", "hr", "html", "img",
    "input", "li", "link", "meta", "optgroup", "option", "p", "param", "rp", "rt", "source", "tbody", "td",
    "tfoot", "th", "thead", "tr", "track", "wbr", "basefont", "frame", "keygen", "command",
];
/// In which there are no tags.
const RAW: &[&str] = &["script", "style", "textarea", "title"];
/// What begins and ends something without tags; the first that fits counts.
const SKIPPED: &[(&str, &str)] = &[("<!--", "-->"), ("<![CDATA[", "]]>"), ("<!", ">")];

impl Checker for Html {
    fn name(&self) -> &'static str {
        "html"
    }

    fn check(&self, text: &str) -> Option<Vec<Problem>> {
        // Such a text is HTML only after a template engine has read it.
        if ["{{", "{%", "<%", "<?", "{#", "${"].iter().any(|mark| text.contains(mark)) {
            return None;
        }
        let mut page = Page { text, open: Vec::new(), found: Vec::new() };
        page.read();
        page.found.sort_by_key(|(at, _)| *at);
        let places = Places::new(text);
        let told = page.found.into_iter().take(MAX_PROBLEMS);
        Some(told.map(|(at, message)| places.problem(text, at, message)).collect())
    }
}

struct Page<'a> {
    text: &'a str,
    /// The elements that are not closed yet.
    open: Vec<(usize, &'a str)>,
    found: Vec<(usize, String)>,
}

impl<'a> Page<'a> {
    fn read(&mut self) {
        let mut at = 0;
        while let Some(tag) = self.text[at..].find('<').map(|found| at + found) {
            let rest = &self.text[tag..];
            if let Some((begin, end)) = SKIPPED.iter().find(|(begin, _)| rest.starts_with(begin)) {
                at = rest[begin.len()..]
                    .find(end)
                    .map_or(self.text.len(), |found| tag + begin.len() + found + end.len());
                continue;
            }
            let closes = rest.starts_with("</");
            let from = tag + 1 + usize::from(closes);
            let name = name(&self.text[from..]);
            at = from + name.len();
            if name.is_empty() {
                continue;
            }
            let Some(end) = self.end_of_tag(at) else { return };
            at = end;
            match closes {
                _ if OPEN.iter().any(|open| open.eq_ignore_ascii_case(name)) => {}
                true => self.close(tag, name),
                false if self.text[..end].ends_with("/>") => {}
                false => {
                    self.open.push((tag, name));
                    if RAW.iter().any(|raw| raw.eq_ignore_ascii_case(name)) {
                        at = self.past_raw(end, name);
                    }
                }
            }
        }
        self.unclosed(0);
    }

    /// After the `>` of a tag. Nothing if it does not end; what comes then would be an echo.
    fn end_of_tag(&mut self, from: usize) -> Option<usize> {
        let bytes = self.text.as_bytes();
        let mut at = from;
        let mut value = false;
        while let Some(&byte) = bytes.get(at) {
            at += 1;
            match byte {
                b'>' => return Some(at),
                b'"' | b'\'' if value => match memchr::memchr(byte, &bytes[at..]) {
                    Some(end) => at += end + 1,
                    None => {
                        self.found.push((at - 1, format!("unclosed `{}`", char::from(byte))));
                        return None;
                    }
                },
                _ => {}
            }
            value = byte == b'=' || (value && byte.is_ascii_whitespace());
        }
        None
    }

    /// To the tag that ends a script and the like.
    fn past_raw(&self, from: usize, name: &str) -> usize {
        let ends = self.text[from..].match_indices("</").map(|(found, _)| from + found);
        let mut ends = ends.filter(|end| {
            self.text.as_bytes()[end + 2..]
                .get(..name.len())
                .is_some_and(|found| found.eq_ignore_ascii_case(name.as_bytes()))
        });
        ends.next().unwrap_or(self.text.len())
    }

    fn close(&mut self, at: usize, name: &str) {
        match self.open.iter().rposition(|(_, open)| open.eq_ignore_ascii_case(name)) {
            Some(opener) => {
                self.unclosed(opener + 1);
                self.open.pop();
            }
            None => self.found.push((at, format!("unexpected `</{name}>`"))),
        }
    }

    /// Blames what is open from here on.
    fn unclosed(&mut self, from: usize) {
        self.found.extend(self.open.drain(from..).map(|(at, name)| (at, format!("unclosed `<{name}>`"))));
    }
}

/// The name that a text begins with.
fn name(text: &str) -> &str {
    let end = text.find(|char: char| char.is_whitespace() || "/><\"'=".contains(char)).unwrap_or(text.len());
    if text.starts_with(|char: char| char.is_ascii_alphabetic()) { &text[..end] } else { "" }
}
