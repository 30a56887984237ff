//! Basic and extended regular expressions of POSIX as ones of the `regex` crate, where both find the same. POSIX
//! wants the longest match, `regex` takes the first one that it tries; they agree where there is no choice but how
//! often the last repeated item is repeated. So alternatives and repeated groups are refused, and every repeated item
//! but the last must not begin like what follows it.

use regex::Regex;

/// A pattern that means the same in both.
#[derive(Debug)]
pub(super) struct Pattern {
    regex: Regex,
    groups: usize,
    needs_ascii: bool,
}

/// A set of ASCII characters.
type Set = u128;

const ANY: Set = !(1 << b'\n');

struct Item {
    set: Set,
    /// A character that is not ASCII, and thus in no set.
    other: Option<char>,
    least: u32,
    most: Option<u32>,
}

enum Part {
    Item(Item),
    Open,
    Close,
}

impl Pattern {
    pub(super) fn read(text: &str, extended: bool, any_case: bool) -> Option<Self> {
        let text_of = text;
        let from_start = text.starts_with('^');
        let text = text.strip_prefix('^').unwrap_or(text);
        let to_end = text.ends_with('$') && !text.ends_with("\\$");
        let text = if to_end { text.strip_suffix('$')? } else { text };
        let parts = parts(text, extended)?;
        let items: Vec<&Item> = parts
            .iter()
            .filter_map(|part| if let Part::Item(item) = part { Some(item) } else { None })
            .collect();
        let can_be_empty = items.iter().all(|item| item.least == 0);
        // Where a match may be empty and begin anywhere, the two disagree on what is next.
        if can_be_empty && !(from_start || (to_end && items.is_empty())) {
            return None;
        }
        let groups = parts.iter().filter(|part| matches!(part, Part::Open)).count();
        let varying = items.iter().filter(|item| item.varies()).count();
        // Up to the end of the line there is no longer match, however it is come by.
        let takes_all =
            groups == 0 && items.last().is_some_and(|item| item.set == ANY && item.most.is_none());
        if varying > 1 && !takes_all && (any_case || !is_without_choice(&items)) {
            return None;
        }
        let needs_ascii =
            any_case || !text_of.is_ascii() || items.iter().any(|item| item.set.count_ones() > 1);
        let mut source = String::from(if any_case { "(?i)" } else { "" });
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
            items.iter().all(|item| item.least == 1 && item.most == Some(1) && item.set.count_ones() <= 1);
        let regex = Regex::new(&source).ok()?;
        Some(Self { regex, groups, needs_ascii: needs_ascii && (any_case || !literal) })
    }

    pub(super) fn regex(&self) -> &Regex {
        &self.regex
    }

    pub(super) fn groups(&self) -> usize {
        self.groups
    }

    /// Whether what it finds in text that is not ASCII depends on sed's locale.
    pub(super) fn needs_ascii(&self) -> bool {
        self.needs_ascii
    }
}

fn is_without_choice(items: &[&Item]) -> bool {
    let last = items.iter().rposition(|item| item.varies()).unwrap_or(0);
    items.iter().enumerate().take(last).filter(|(_, item)| item.varies()).all(|(n, item)| {
        let mut follows = 0;
        for next in items.iter().skip(n + 1) {
            follows |= next.set;
            if next.least > 0 {
                break;
            }
        }
        item.set & follows == 0
    })
}

impl Item {
    fn varies(&self) -> bool {
        self.most != Some(self.least)
    }

    fn write(&self, source: &mut String) {
        use std::fmt::Write as _;
        if let Some(c) = self.other {
            source.push(c);
            return;
        }
        source.push('[');
        for byte in (0..128_u8).filter(|byte| self.set >> byte & 1 == 1) {
            let _ = write!(source, "\\x{byte:02x}");
        }
        source.push(']');
        match (self.least, self.most) {
            (1, Some(1)) => {}
            (least, None) => drop(write!(source, "{{{least},}}")),
            (least, Some(most)) => drop(write!(source, "{{{least},{most}}}")),
        }
    }
}

fn parts(text: &str, extended: bool) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    let mut open = 0_usize;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        rest = rest.get(c.len_utf8()..)?;
        // What a backslash gives its meaning in the one takes it away in the other.
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
                let (least, most) = match inner.split_once(',') {
                    None => (number(inner)?, Some(number(inner)?)),
                    Some((least, "")) => (number(least)?, None),
                    Some((least, most)) => (number(least)?, Some(number(most)?)),
                };
                if most.is_some_and(|most| most < least) {
                    return None;
                }
                rest = after;
                repeat(&mut parts, least, most)?;
            }
            _ if special => return None,
            '^' | '$' if !escaped => return None,
            '.' if !escaped => parts.push(one(ANY)),
            '[' if !escaped => {
                let (set, after) = bracket(rest)?;
                rest = after;
                parts.push(one(set));
            }
            // Edges of words and of the text, and what else sed has a meaning of its own for.
            '<' | '>' | '`' | '\'' if escaped => return None,
            // sed has a meaning of its own for these.
            c if escaped && c.is_ascii_alphanumeric() => parts.push(one(class_letter(c)?)),
            '\n' => return None,
            // A bracket or brace that is not one is read in different ways.
            ']' | '}' if !escaped => return None,
            c if c.is_ascii() => parts.push(one(1 << (c as u32))),
            c => parts.push(Part::Item(Item { set: 0, other: Some(c), least: 1, most: Some(1) })),
        }
    }
    (open == 0).then_some(parts)
}

fn one(set: Set) -> Part {
    Part::Item(Item { set, other: None, least: 1, most: Some(1) })
}

fn number(text: &str) -> Option<u32> {
    text.parse().ok().filter(|number| *number <= 255 && text.len() <= 3)
}

/// Repeats the item before; a group, or what is repeated already, is not.
fn repeat(parts: &mut [Part], least: u32, most: Option<u32>) -> Option<()> {
    match parts.last_mut()? {
        Part::Item(item) if item.other.is_none() && !item.varies() && item.least == 1 => {
            (item.least, item.most) = (least, most);
            Some(())
        }
        _ => None,
    }
}

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

/// `[…]` behind its opening bracket.
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
