//! The fallback for text that the parser cannot read: splits it into every run of characters that could be the name
//! of a command. An over-approximation that ignores quotes, comments and grammar, so that none of them hides a name.

use std::collections::BTreeSet;

/// Alternative names of programs, and the name under which checks know them.
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

/// Splits a text at blanks and shell operators, and removes quotes and backslashes.
pub(super) fn tokens(text: &str) -> impl Iterator<Item = String> + use<'_> {
    let separates = |c: char| c.is_whitespace() || ";&|()<>{}`$=,".contains(c);
    text.split(separates).filter_map(|piece| {
        let word: String = piece.chars().filter(|c| !matches!(c, '\'' | '"' | '\\')).collect();
        (!word.is_empty()).then_some(word)
    })
}

/// The substitutions in a text that a shell would run if it expanded the text. Where the end is uncertain, the part
/// is too long rather than too short.
pub(super) fn scripts(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = [rest.find("$("), rest.find('`')].into_iter().flatten().min() {
        let body = rest.get(at + 1..).unwrap_or_default();
        let length = match body.strip_prefix('(') {
            // `case` has unbalanced brackets of its own, so counting brackets does not find the end.
            Some(_) if body.contains("case") => body.len(),
            Some(_) => closing(body),
            None => body.find('`').unwrap_or(body.len()),
        };
        let (script, after) = body.split_at_checked(length).unwrap_or((body, ""));
        found.push(script);
        // The next backquote is the closing one.
        rest = after.strip_prefix('`').unwrap_or(after);
    }
    found
}

/// Length of the text up to and including the bracket that closes its first one.
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

/// Last component of a path, without trailing slashes.
pub(super) fn basename(path: &str) -> &str {
    // Called for every word, and most are short: a plain byte loop is fastest.
    let bytes = path.as_bytes();
    let Some(end) = bytes.iter().rposition(|byte| *byte != b'/') else { return path };
    let start = bytes.iter().take(end).rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    path.get(start..=end).unwrap_or(path)
}

/// Adds the names under which checks know a program: its base name, that without a version, and its alias.
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
