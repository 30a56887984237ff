//! Infers how the indentation of new text must change to fit the file, from lines that are in both: by a constant
//! shift, by a scale (tabs for spaces, two for four) or line by line.

/// How to change the indentation of new text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reindent {
    /// No change.
    Same,
    /// Add this prefix.
    Deeper(String),
    /// Remove this prefix.
    Shallower(String),
    /// Linear: `rise` characters of the file for `run` characters of the text, plus `base`, written in `fill`.
    Scaled { rise: isize, run: isize, base: isize, fill: char },
    /// Indent only unindented lines: the text begins in the middle of a line.
    Unindented(String),
    /// Replace each indentation as on the lines that are in both.
    Pairs(Vec<(String, String)>),
    /// Contradictory: lines with equal indentation in the text have different ones in the file.
    Unclear,
}

/// The white space at the start of a line.
pub(crate) fn indent_of(line: &str) -> &str {
    let rest = line.trim_start_matches([' ', '\t']);
    &line[..line.len() - rest.len()]
}

impl Reindent {
    /// Infers the change from pairs of indentations: in the text, and in the file.
    pub(crate) fn infer(pairs: &[(&str, &str)]) -> Self {
        let Some((text, file)) = pairs.first() else { return Self::Same };
        if pairs.iter().all(|(text, file)| text == file) {
            return Self::Same;
        }
        if let Some(front) = file.strip_suffix(text)
            && pairs.iter().all(|(text, file)| file.strip_suffix(text) == Some(front))
        {
            return Self::Deeper(front.to_owned());
        }
        if let Some(front) = text.strip_suffix(file)
            && pairs.iter().all(|(text, file)| text.strip_suffix(file) == Some(front))
        {
            return Self::Shallower(front.to_owned());
        }
        let contradicts = |(text, file): &(&str, &str)| {
            pairs.iter().any(|(other, elsewhere)| other == text && elsewhere != file)
        };
        if pairs.iter().any(contradicts) {
            return Self::Unclear;
        }
        Self::scale(pairs).unwrap_or_else(|| {
            Self::Pairs(pairs.iter().map(|(text, file)| ((*text).to_owned(), (*file).to_owned())).collect())
        })
    }

    fn scale(pairs: &[(&str, &str)]) -> Option<Self> {
        only_char(pairs.iter().map(|pair| pair.0))?;
        let fill = only_char(pairs.iter().map(|pair| pair.1))??;
        let lens: Vec<(isize, isize)> =
            pairs.iter().map(|(text, file)| (text.len() as isize, file.len() as isize)).collect();
        let low = *lens.iter().min()?;
        let high = *lens.iter().max()?;
        let (rise, run) = if high.0 > low.0 {
            (high.1 - low.1, high.0 - low.0)
        } else if low.0 > 0 {
            (low.1, low.0)
        } else {
            return None;
        };
        // A linear change: all pairs lie on one line through the lowest.
        let fits = lens.iter().all(|(text, file)| (text - low.0) * rise == (file - low.1) * run);
        let base = low.1 * run - low.0 * rise;
        (fits && rise > 0 && base % run == 0).then_some(Self::Scaled { rise, run, base: base / run, fill })
    }

    /// A line with its indentation changed.
    pub(crate) fn line(&self, line: &str) -> String {
        let indent = indent_of(line);
        let rest = &line[indent.len()..];
        if rest.is_empty() {
            // Blank lines get no indentation.
            return if *self == Self::Same { line.to_owned() } else { String::new() };
        }
        match self {
            Self::Same | Self::Unclear => line.to_owned(),
            Self::Deeper(front) => format!("{front}{line}"),
            Self::Shallower(front) => {
                let common = indent.bytes().zip(front.bytes()).take_while(|(a, b)| a == b).count();
                line[common..].to_owned()
            }
            Self::Scaled { rise, run, base, fill } => {
                let len = indent.len() as isize * rise;
                let count = usize::try_from(len / run + base).unwrap_or(0);
                let odd = if *fill == '\t' { (len % run / rise) as usize } else { 0 };
                let fill = String::from(*fill).repeat(count);
                format!("{fill}{}{rest}", " ".repeat(odd))
            }
            Self::Unindented(front) if indent.is_empty() => format!("{front}{line}"),
            Self::Unindented(_) => line.to_owned(),
            Self::Pairs(pairs) => {
                let same = pairs.iter().find(|(text, _)| text == indent);
                let outer = || {
                    let outer = pairs.iter().filter(|(text, _)| indent.starts_with(text.as_str()));
                    outer.max_by_key(|(text, _)| text.len())
                };
                match same.or_else(outer) {
                    Some((text, file)) => format!("{file}{}", &line[text.len()..]),
                    None => line.to_owned(),
                }
            }
        }
    }
}

/// The only character in all indentations; `Some(None)` if all are empty, `None` if they are mixed.
fn only_char<'a>(indents: impl Iterator<Item = &'a str>) -> Option<Option<char>> {
    let mut all = indents.flat_map(str::chars);
    let Some(first) = all.next() else { return Some(None) };
    all.all(|char| char == first).then_some(Some(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pairs: &[(&str, &str)], lines: &[(&str, &str)]) {
        let inferred = Reindent::infer(pairs);
        for (line, expected) in lines {
            assert_eq!(inferred.line(line), *expected, "{inferred:?}");
        }
    }

    #[test]
    fn contradictory_pairs_are_not_guessed() {
        assert_eq!(Reindent::infer(&[("", ""), ("", "  "), ("", "  ")]), Reindent::Unclear);
    }

    #[test]
    fn shifts_scales_and_pairs() {
        check(&[("", "    "), ("  ", "      ")], &[("x", "    x"), ("    y", "        y"), ("", "")]);
        check(&[("    ", ""), ("      ", "  ")], &[("    x", "x"), ("  x", "x"), ("        y", "    y")]);
        check(&[("    ", "\t"), ("        ", "\t\t")], &[("            x", "\t\t\tx"), ("      y", "\t  y")]);
        check(&[("\t", "    ")], &[("\t\tx", "        x")]);
        check(&[("  ", "    "), ("    ", "        ")], &[("      x", "            x")]);
        check(&[("", "\t"), ("    ", "\t\t")], &[("        x", "\t\t\tx")]);
        check(&[("", " "), ("  ", "")], &[("x", " x"), ("  y", "y")]);
    }
}
