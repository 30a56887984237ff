//! The over-approximation where nothing better is to be had: every run of characters that could be a command's
//! name. No quote, comment or grammar hides one.

use std::collections::BTreeSet;

/// Names under which other programs are known, too.
const ALIASES: &[(&str, &str)] = &[
    ("pythonw", "python"),
    ("google-chrome", "chrome"),
    ("google-chrome-stable", "chrome"),
    ("chromium", "chrome"),
    ("chromium-browser", "chrome"),
    ("firefox-esr", "firefox"),
    ("ncat", "nc"),
    ("netcat", "nc"),
    ("nc.openbsd", "nc"),
    ("nc.traditional", "nc"),
    ("sudoedit", "sudo"),
    ("pkexec", "sudo"),
    ("run0", "sudo"),
    ("aptitude", "apt"),
    ("apt-cache", "apt"),
    ("sftp", "ssh"),
    ("autossh", "ssh"),
    ("microdnf", "dnf"),
];

/// Every word of a text, with quotes and backslashes taken away, however it is separated.
pub(super) fn tokens(text: &str) -> impl Iterator<Item = String> + use<'_> {
    let separates = |c: char| c.is_whitespace() || ";&|()<>{}`$=,".contains(c);
    text.split(separates).filter_map(|piece| {
        let word: String = piece.chars().filter(|c| !matches!(c, '\'' | '"' | '\\')).collect();
        (!word.is_empty()).then_some(word)
    })
}

/// The parts of a text that a shell would run as scripts if it expanded it: rather too long than too short.
pub(super) fn scripts(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = [rest.find("$("), rest.find('`')].into_iter().flatten().min() {
        let body = rest.get(at + 1..).unwrap_or_default();
        let length = match body.strip_prefix('(') {
            // Where `case` has brackets of its own, the end is not found by counting.
            Some(_) if body.contains("case") => body.len(),
            Some(_) => closing(body),
            None => body.find('`').unwrap_or(body.len()),
        };
        let (script, after) = body.split_at_checked(length).unwrap_or((body, ""));
        found.push(script);
        // The next backquote ends this one.
        rest = after.strip_prefix('`').unwrap_or(after);
    }
    found
}

/// The length up to the bracket that closes the first one.
fn closing(text: &str) -> usize {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth <= 1 => return at + 1,
            ')' => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

/// What is after the last slash.
pub(super) fn basename(path: &str) -> &str {
    // Asked of every word, and most are short: byte by byte is fastest.
    let bytes = path.as_bytes();
    let Some(end) = bytes.iter().rposition(|byte| *byte != b'/') else { return path };
    let start = bytes.iter().take(end).rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    path.get(start..=end).unwrap_or(path)
}

/// The names that a command's word goes by: its last name, without a version, and what it is an alias of.
pub(super) fn names_of(word: &str, names: &mut BTreeSet<String>) {
    let name = basename(word).to_lowercase();
    let name = name.strip_suffix(".exe").unwrap_or(&name);
    if name.is_empty() {
        return;
    }
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    let family = name.split_once('.').map_or(plain, |(family, _)| family);
    for name in [name, plain, family] {
        if !name.is_empty() && !names.contains(name) {
            names.insert(name.to_owned());
        }
        if let Some((_, known)) = ALIASES.iter().find(|(alias, _)| *alias == name) {
            names.insert((*known).to_owned());
        }
    }
}
