//! A case as text: a title, then sections. A section is a line that begins with `:: ` and the lines below it.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStringExt as _;

use anyhow::{Context as _, bail};

const MARK: &str = ":: ";

/// A case as it is written.
pub(crate) struct Case {
    /// What the case shows.
    title: String,
    /// In order.
    pub(crate) sections: Vec<Section>,
}

/// A heading and the lines below it.
#[derive(Clone)]
pub(crate) struct Section {
    /// What follows the mark.
    pub(crate) head: String,
    /// Whole lines.
    pub(crate) body: String,
}

impl Case {
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let mut case = Self { title: String::new(), sections: Vec::new() };
        for line in text.split_inclusive('\n') {
            match (line.strip_prefix(MARK), case.sections.last_mut()) {
                (Some(head), _) => {
                    case.sections.push(Section { head: head.trim_end().to_owned(), body: String::new() });
                }
                (None, Some(section)) => section.body.push_str(line),
                (None, None) => case.title.push_str(line),
            }
        }
        if case.title.trim().is_empty() {
            bail!("the first line says what the case shows");
        }
        Ok(case)
    }

    /// The same title above other sections.
    pub(crate) fn with(&self, sections: Vec<Section>) -> Self {
        Self { title: self.title.clone(), sections }
    }

    /// The sections of a kind, without the kind.
    pub(crate) fn all<'a>(&'a self, kind: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.sections.iter().filter_map(move |section| Some((section.of(kind)?, section.body.as_str())))
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.title)?;
        self.sections.iter().try_for_each(|section| write!(f, "{MARK}{}\n{}", section.head, section.body))
    }
}

impl Section {
    pub(crate) fn new(head: impl Into<String>, body: impl Into<String>) -> Self {
        Self { head: head.into(), body: body.into() }
    }

    /// What follows the kind in the heading, if it is of that kind.
    pub(crate) fn of(&self, kind: &str) -> Option<&str> {
        let rest = self.head.strip_prefix(kind)?;
        (rest.is_empty() || rest.starts_with([' ', ','])).then(|| rest.trim_start_matches([' ', ',']))
    }
}

/// A name and what is said about it: `a.txt, mode 600, crlf`.
pub(crate) struct Named<'a> {
    pub(crate) name: OsString,
    pub(crate) options: Vec<&'a str>,
}

impl<'a> Named<'a> {
    pub(crate) fn parse(text: &'a str) -> anyhow::Result<Self> {
        let (name, rest) = if let Some(quoted) = text.strip_prefix('"') {
            let end = quoted.rfind('"').context("a quote is missing")?;
            (unescape(&quoted[..end])?, &quoted[end + 1..])
        } else {
            let end = text.find(", ").unwrap_or(text.len());
            (text[..end].into(), &text[end..])
        };
        let options = rest.split(", ").map(str::trim).filter(|option| !option.is_empty()).collect();
        Ok(Self { name, options })
    }

    pub(crate) fn has(&self, option: &str) -> bool {
        self.options.contains(&option)
    }

    /// What follows a word: `mode` in `mode 600`.
    pub(crate) fn value(&self, word: &str) -> Option<&'a str> {
        self.options.iter().find_map(|option| option.strip_prefix(word)?.strip_prefix(' '))
    }

    /// The text that `50 times ab` or `50 lines of entry {n}` stand for.
    pub(crate) fn generated(&self) -> anyhow::Result<Option<String>> {
        for option in &self.options {
            if let Some((count, unit)) = option.split_once(" times ") {
                return Ok(Some(unit.repeat(count.parse()?)));
            }
            if let Some((count, line)) = option.split_once(" lines of ") {
                let lines = (1..=count.parse::<u64>()?).map(|n| line.replace("{n}", &n.to_string()) + "\n");
                return Ok(Some(lines.collect()));
            }
        }
        Ok(None)
    }
}

/// Reads `\n`, `\t`, `\e`, `\"`, `\\` and `\xNN`.
fn unescape(text: &str) -> anyhow::Result<OsString> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next().context("nothing follows the backslash")? {
            b'n' => bytes.push(b'\n'),
            b't' => bytes.push(b'\t'),
            b'e' => bytes.push(0x1b),
            b'x' => {
                let digits: Vec<u8> = rest.by_ref().take(2).collect();
                bytes.push(u8::from_str_radix(std::str::from_utf8(&digits)?, 16)?);
            }
            other => bytes.push(other),
        }
    }
    Ok(OsString::from_vec(bytes))
}
