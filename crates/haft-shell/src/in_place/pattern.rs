//! Translates POSIX basic and extended regular expressions to the `regex` crate, where both match the same text. POSIX
//! is leftmost-longest, `regex` is leftmost-first; they agree if the only choice is the repeat count of the last
//! repeated item. So alternatives and repeated groups are refused, and every repeated item but the last must be
//! disjoint from the characters that can follow it.

use regex::Regex;

/// A pattern that matches the same text in sed and in `regex`.
#[derive(Debug)]
pub(super) struct Pattern {
    regex: Regex,
    groups: usize,
    needs_ascii: bool,
}

/// A set of ASCII characters, one bit each.
type Set = u128;

const ANY: Set = !(1 << b'\n');

/// A character or a set of characters, with its repeat count.
struct Item {
    set: Set,
    /// A non-ASCII character, which `set` cannot hold.
    non_ascii: Option<char>,
    min: u32,
    max: Option<u32>,
}

enum Part {
    Item(Item),
    Open,
    Close,
}

impl Pattern {
    pub(super) fn read(text: &str, extended: bool, ignore_case: bool) -> Option<Self> {
        let source_text = text;
        let from_start = text.starts_with('^');
        let text = text.strip_prefix('^').unwrap_or(text);
        let to_end = text.ends_with('$') && !text.ends_with("\\$");
        let text = if to_end { text.strip_suffix('$')? } else { text };
        let parts = parts(text, extended)?;
        let items: Vec<&Item> = parts
            .iter()
            .filter_map(|part| if let Part::Item(item) = part { Some(item) } else { None })
            .collect();
        let can_be_empty = items.iter().all(|item| item.min == 0);
        // After an empty match, the two disagree on where the next one begins.
        if can_be_empty && !(from_start || (to_end && items.is_empty())) {
            return None;
        }
        let groups = parts.iter().filter(|part| matches!(part, Part::Open)).count();
        let varying = items.iter().filter(|item| item.varies()).count();
        // A match up to the end of the line is the longest one, by whichever choices the engine finds it.
        let reaches_line_end =
            groups == 0 && items.last().is_some_and(|item| item.set == ANY && item.max.is_none());
        if varying > 1 && !reaches_line_end && (ignore_case || !is_deterministic(&items)) {
            return None;
        }
        let needs_ascii =
            ignore_case || !source_text.is_ascii() || items.iter().any(|item| item.set.count_ones() > 1);
        let mut source = String::from(if ignore_case { "(?i)" } else { "" });
        source.push_str(if from_start { "^" } else { "" });
        for part in &parts {
            match part {
                Part::Open => source.push('('),
                Part::Close => source.push(')'),
                Part::Item(item) => item.write(&mut source),
            }
        }
        source.push_str(if to_end { "$" } else { "" });
        let literal =
            items.iter().all(|item| item.min == 1 && item.max == Some(1) && item.set.count_ones() <= 1);
        let regex = Regex::new(&source).ok()?;
        Some(Self { regex, groups, needs_ascii: needs_ascii && (ignore_case || !literal) })
    }

    pub(super) fn regex(&self) -> &Regex {
        &self.regex
    }

    pub(super) fn groups(&self) -> usize {
        self.groups
    }

    /// Whether its matches in non-ASCII text depend on sed's locale.
    pub(super) fn needs_ascii(&self) -> bool {
        self.needs_ascii
    }
}

/// Whether every repeated item but the last is disjoint from the characters that can follow it.
fn is_deterministic(items: &[&Item]) -> bool {
    let last = items.iter().rposition(|item| item.varies()).unwrap_or(0);
    items.iter().enumerate().take(last).filter(|(_, item)| item.varies()).all(|(n, item)| {
        let mut following = 0;
        for next in items.iter().skip(n + 1) {
            following |= next.set;
            if next.min > 0 {
                break;
            }
        }
        item.set & following == 0
    })
}

impl Item {
    fn varies(&self) -> bool {
        self.max != Some(self.min)
    }

    fn write(&self, source: &mut String) {
        use std::fmt::Write as _;
        if let Some(c) = self.non_ascii {
            source.push(c);
            return;
        }
        source.push('[');
        for byte in (0..128_u8).filter(|byte| self.set >> byte & 1 == 1) {
            let _ = write!(source, "\\x{byte:02x}");
        }
        source.push(']');
        match (self.min, self.max) {
            (1, Some(1)) => {}
            (min, None) => drop(write!(source, "{{{min},}}")),
            (min, Some(max)) => drop(write!(source, "{{{min},{max}}}")),
        }
    }
}

fn parts(text: &str, extended: bool) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    let mut open = 0_usize;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        rest = rest.get(c.len_utf8()..)?;
        // A backslash makes an operator special in basic expressions, and literal in extended ones.
        let escaped = c == '\\';
        let c = if escaped {
            let c = rest.chars().next()?;
            rest = rest.get(c.len_utf8()..)?;
            c
        } else {
            c
        };
        let special = matches!(c, '(' | ')' | '{' | '}' | '+' | '?' | '|') && (escaped != extended);
        match c {
            '(' if special => {
                open += 1;
                parts.push(Part::Open);
            }
            ')' if special => {
                open = open.checked_sub(1)?;
                parts.push(Part::Close);
            }
            '+' if special => repeat(&mut parts, 1, None)?,
            '?' if special => repeat(&mut parts, 0, Some(1))?,
            '*' if !escaped => repeat(&mut parts, 0, None)?,
            '{' if special => {
                let (inner, after) = rest.split_once(if extended { "}" } else { "\\}" })?;
                let (min, max) = match inner.split_once(',') {
                    None => (number(inner)?, Some(number(inner)?)),
                    Some((min, "")) => (number(min)?, None),
                    Some((min, max)) => (number(min)?, Some(number(max)?)),
                };
                if max.is_some_and(|max| max < min) {
                    return None;
                }
                rest = after;
                repeat(&mut parts, min, max)?;
            }
            _ if special => return None,
            '^' | '$' if !escaped => return None,
            '.' if !escaped => parts.push(single(ANY)),
            '[' if !escaped => {
                let (set, after) = bracket(rest)?;
                rest = after;
                parts.push(single(set));
            }
            // GNU anchors: edges of words and of the text.
            '<' | '>' | '`' | '\'' if escaped => return None,
            // GNU escapes, such as `\s` and `\w`.
            c if escaped && c.is_ascii_alphanumeric() => parts.push(single(class_letter(c)?)),
            '\n' => return None,
            // Implementations differ on an unmatched bracket or brace.
            ']' | '}' if !escaped => return None,
            c if c.is_ascii() => parts.push(single(1 << (c as u32))),
            c => parts.push(Part::Item(Item { set: 0, non_ascii: Some(c), min: 1, max: Some(1) })),
        }
    }
    (open == 0).then_some(parts)
}

fn single(set: Set) -> Part {
    Part::Item(Item { set, non_ascii: None, min: 1, max: Some(1) })
}

fn number(text: &str) -> Option<u32> {
    text.parse().ok().filter(|number| *number <= 255 && text.len() <= 3)
}

/// Repeats the last item. Refuses a group, and an item that is repeated already.
fn repeat(parts: &mut [Part], min: u32, max: Option<u32>) -> Option<()> {
    match parts.last_mut()? {
        Part::Item(item) if item.non_ascii.is_none() && !item.varies() && item.min == 1 => {
            (item.min, item.max) = (min, max);
            Some(())
        }
        _ => None,
    }
}

/// The set of a GNU escape.
fn class_letter(c: char) -> Option<Set> {
    let word = class("alnum")? | 1 << b'_';
    Some(match c {
        't' => 1 << b'\t',
        's' => class("space")?,
        'S' => !class("space")?,
        'w' => word,
        'W' => !word & ANY,
        _ => return None,
    })
}

/// The set of a POSIX character class, in the C locale.
fn class(name: &str) -> Option<Set> {
    let fits: fn(&u8) -> bool = match name {
        "alpha" => u8::is_ascii_alphabetic,
        "digit" => u8::is_ascii_digit,
        "alnum" => u8::is_ascii_alphanumeric,
        "upper" => u8::is_ascii_uppercase,
        "lower" => u8::is_ascii_lowercase,
        "space" => |byte| matches!(byte, b' ' | b'\t'..=b'\r'),
        "blank" => |byte| matches!(byte, b' ' | b'\t'),
        "punct" => u8::is_ascii_punctuation,
        "xdigit" => u8::is_ascii_hexdigit,
        _ => return None,
    };
    Some((0..128_u8).filter(fits).fold(0, |set, byte| set | 1 << byte))
}

/// Parses a bracket expression behind its `[`; returns its set and the rest of the text.
fn bracket(text: &str) -> Option<(Set, &str)> {
    let negated = text.starts_with('^');
    let mut rest = text.strip_prefix('^').unwrap_or(text);
    let mut set: Set = 0;
    if rest.starts_with(']') {
        return None;
    }
    loop {
        let c = rest.chars().next()?;
        rest = rest.get(c.len_utf8()..)?;
        match c {
            ']' => break,
            '[' => {
                let (name, after) = rest.strip_prefix(':')?.split_once(":]")?;
                set |= class(name)?;
                rest = after;
            }
            '\\' | '\n' => return None,
            c if !c.is_ascii() => return None,
            c => {
                let mut ahead = rest.chars();
                let to = match (ahead.next(), ahead.next()) {
                    (Some('-'), Some(to)) if to != ']' => to,
                    _ => {
                        set |= 1 << (c as u32);
                        continue;
                    }
                };
                let same = [char::is_ascii_digit, char::is_ascii_lowercase, char::is_ascii_uppercase]
                    .iter()
                    .any(|kind| kind(&c) && kind(&to));
                if !same || to < c {
                    return None;
                }
                for byte in c as u32..=to as u32 {
                    set |= 1 << byte;
                }
                rest = rest.get(2..)?;
            }
        }
    }
    let set = if negated { !set & ANY } else { set };
    (set != 0).then_some((set, rest))
}
