//! Reads `.editorconfig` files: the properties of one path that matter for a new file. Section globs follow the format:
//! `*` does not cross folders, and `{1..9}` is a range of numbers. Lenient: invalid lines are ignored, and a comment may
//! follow a value. Reads no files itself.

use globset::GlobBuilder;

use super::encoding::Ending;

/// The properties that apply to a path; `None` for each that is not set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Properties {
    pub end_of_line: Option<Ending>,
    pub insert_final_newline: Option<bool>,
    pub charset: Option<NewCharset>,
    /// Reported only: haft writes text as given.
    pub trim_trailing_whitespace: Option<bool>,
    pub indent: Option<Indent>,
}

/// A charset for new files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewCharset {
    Utf8,
    Utf8Marked,
    Utf16Le,
    Utf16Be,
    Latin1,
}

/// How lines are indented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Indent {
    Tabs,
    /// Number of spaces, if it is known.
    Spaces(Option<usize>),
}

/// One `.editorconfig` file.
#[derive(Clone, Copy, Debug)]
pub struct ConfigFile<'a> {
    /// Its content.
    pub text: &'a str,
    /// The path of the new file, relative to the folder of this `.editorconfig`, with `/`.
    pub path: &'a str,
}

/// The properties that `.editorconfig` files, nearest first, set for one path.
pub(crate) fn properties(files: &[ConfigFile<'_>]) -> Properties {
    let root = files.iter().position(|file| is_root(file.text)).map_or(files.len(), |at| at + 1);
    let mut found = Properties::default();
    let mut size: Option<String> = None;
    let mut style: Option<String> = None;
    for file in files[..root].iter().rev() {
        let mut applies = false;
        for line in lines(file.text) {
            if let Some(glob) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                applies = matches(glob, file.path);
            } else if applies && let Some((key, value)) = pair(line) {
                match key.as_str() {
                    "end_of_line" => found.end_of_line = ending(&value),
                    "insert_final_newline" => found.insert_final_newline = boolean(&value),
                    "trim_trailing_whitespace" => found.trim_trailing_whitespace = boolean(&value),
                    "charset" => found.charset = charset(&value),
                    "indent_style" => style = Some(value),
                    "indent_size" => size = Some(value),
                    "tab_width" if size.as_deref() == Some("tab") => size = Some(value),
                    _ => {}
                }
            }
        }
    }
    found.indent = match (style.as_deref(), size.as_deref()) {
        (Some("tab"), _) => Some(Indent::Tabs),
        (Some("space"), size) => Some(Indent::Spaces(size.and_then(|size| size.parse().ok()))),
        _ => None,
    };
    found
}

/// Lines that are neither empty nor comments.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';']))
}

fn is_root(text: &str) -> bool {
    lines(text)
        .take_while(|line| !line.starts_with('['))
        .filter_map(pair)
        .any(|(key, value)| key == "root" && value == "true")
}

fn pair(line: &str) -> Option<(String, String)> {
    let (key, value) = line.split_once('=')?;
    let value = value.split([';', '#']).next().unwrap_or_default();
    Some((key.trim().to_lowercase(), value.trim().to_lowercase()))
}

fn boolean(value: &str) -> Option<bool> {
    match value {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

fn ending(value: &str) -> Option<Ending> {
    match value {
        "lf" => Some(Ending::Lf),
        "crlf" => Some(Ending::CrLf),
        "cr" => Some(Ending::Cr),
        _ => None,
    }
}

fn charset(value: &str) -> Option<NewCharset> {
    match value {
        "utf-8" => Some(NewCharset::Utf8),
        "utf-8-bom" => Some(NewCharset::Utf8Marked),
        "utf-16le" => Some(NewCharset::Utf16Le),
        "utf-16be" => Some(NewCharset::Utf16Be),
        "latin1" => Some(NewCharset::Latin1),
        _ => None,
    }
}

/// Whether a section's glob matches a path. A glob without a `/` matches in any folder below.
fn matches(glob: &str, path: &str) -> bool {
    let anchored = match glob.strip_prefix('/') {
        Some(glob) => glob.to_owned(),
        None if glob.contains('/') => glob.to_owned(),
        None => format!("**/{glob}"),
    };
    let expanded = expand_ranges(&anchored);
    let built = GlobBuilder::new(&expanded).literal_separator(true).empty_alternates(true).build();
    built.is_ok_and(|glob| glob.compile_matcher().is_match(path))
}

/// Expands `{1..3}` to `{1,2,3}`, for at most 1000 numbers.
fn expand_ranges(glob: &str) -> String {
    let mut out = String::new();
    let mut rest = glob;
    while let Some(open) = rest.find('{') {
        let (before, from) = rest.split_at(open);
        out.push_str(before);
        let Some(close) = from.find('}') else { break };
        let inside = &from[1..close];
        let range = inside.split_once("..").and_then(|(low, high)| {
            let (low, high): (i32, i32) = (low.parse().ok()?, high.parse().ok()?);
            (low <= high && high.checked_sub(low)? < 1000).then(|| {
                let all: Vec<String> = (low..=high).map(|number| number.to_string()).collect();
                format!("{{{}}}", all.join(","))
            })
        });
        match range {
            Some(list) => {
                out.push_str(&list);
                rest = &from[close + 1..];
            }
            None => {
                out.push('{');
                rest = &from[1..];
            }
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, path: &str) -> Properties {
        properties(&[ConfigFile { text, path }])
    }

    #[test]
    fn sections_apply_to_what_they_match() {
        let text = "root = true\n[*]\nend_of_line = LF\ninsert_final_newline = true ; yes\n[*.{bat,cmd}]\nend_of_line = crlf\n\
                    [/top/*.c]\nindent_style = tab\n[f{1..3}.txt]\ncharset = utf-16le\n# comment\n[lib/**.js]\n\
                    indent_style = space\nindent_size = 2\ntrim_trailing_whitespace = false\n";
        assert_eq!(of(text, "a/b.bat").end_of_line, Some(Ending::CrLf));
        assert_eq!(of(text, "a/b.rs").end_of_line, Some(Ending::Lf));
        assert_eq!(of(text, "a/b.rs").insert_final_newline, Some(true));
        assert_eq!(of(text, "top/x.c").indent, Some(Indent::Tabs));
        assert_eq!(of(text, "top/in/x.c").indent, None);
        assert_eq!(of(text, "f2.txt").charset, Some(NewCharset::Utf16Le));
        assert_eq!(of(text, "f4.txt").charset, None);
        assert_eq!(of(text, "lib/x.js").indent, Some(Indent::Spaces(Some(2))));
        assert_eq!(of(text, "lib/x.js").trim_trailing_whitespace, Some(false));
    }

    #[test]
    fn nearer_files_win_and_a_root_ends_the_search() {
        let near = ConfigFile { text: "[*]\nend_of_line=crlf\n", path: "x" };
        let middle =
            ConfigFile { text: "root=true\n[*]\nend_of_line=lf\ninsert_final_newline=false\n", path: "a/x" };
        let far = ConfigFile { text: "[*]\ncharset=latin1\n", path: "b/a/x" };
        let found = properties(&[near, middle, far]);
        assert_eq!((found.end_of_line, found.insert_final_newline), (Some(Ending::CrLf), Some(false)));
        assert_eq!(found.charset, None);
        assert_eq!(properties(&[near, far]).charset, Some(NewCharset::Latin1));
    }

    proptest::proptest! {
        #[test]
        fn nothing_panics(text in "[\\[\\]{}*?!a-c./=\n .0-9]{0,60}", path in "[a-c/.]{0,8}") {
            of(&text, &path);
        }
    }
}
