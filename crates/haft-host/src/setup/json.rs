//! Edits of JSON with comments, as splices of its text: what is not named by an edit keeps every byte. The parser tells where
//! tables, lists and comments are; commas, indentation and line breaks follow what is around them.

use jsonc_parser::ast::{self, ObjectPropName};
use jsonc_parser::common::Ranged as _;
use jsonc_parser::tokens::{Token, TokenAndRange};
use jsonc_parser::{
    CollectOptions, CommentCollectionStrategy, ParseOptions, parse_to_ast, parse_to_serde_value,
};
use serde_json::Value;

use super::document::{Problem, Step, not_a};

/// What clients accept: comments and trailing commas, and nothing else that is not JSON.
fn options() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

/// The meaning of a text; null if there is nothing but comments.
pub(super) fn parse(text: &str) -> Result<Value, Problem> {
    parse_to_serde_value(text, &options()).map_err(|error| error.to_string())
}

/// A text with one change.
pub(super) fn apply(text: &str, step: &Step) -> Result<String, Problem> {
    let collect = CollectOptions { comments: CommentCollectionStrategy::AsTokens, tokens: true };
    let parsed = parse_to_ast(text, &collect, &options()).map_err(|error| error.to_string())?;
    let page = Page { text, tokens: parsed.tokens.unwrap_or_default() };
    let Some(root) = &parsed.value else {
        return match step {
            Step::Insert { table, key, value } if table.is_empty() => Ok(page.first_value(key, value)),
            _ => Err("it is empty".to_owned()),
        };
    };
    match step {
        Step::Insert { table, key, value } => {
            let container = Container::table(find(root, table), table)?;
            Ok(page.insert(&container, Some(key), value))
        }
        Step::Push { path, text } => {
            let container = Container::list(find(root, path), path)?;
            Ok(page.insert(&container, None, &Value::String(text.clone())))
        }
        Step::Replace { path, value } => {
            let found = find(root, path).ok_or_else(|| not_a("key of this file", path))?.range();
            let is_short = !text[found.start..found.end].contains('\n') && !value.is_object();
            let indent = (!is_short).then(|| page.indent_of_line(found.start));
            let value = page.render(value, indent);
            Ok(format!("{}{value}{}", &text[..found.start], &text[found.end..]))
        }
        Step::Remove { path } => {
            let (key, table) = path.split_last().ok_or("a path is empty")?;
            let found = find(root, table);
            let container = Container::table(found, table)?;
            let at = found
                .and_then(ast::Value::as_object)
                .and_then(|object| object.properties.iter().position(|property| name(property) == key))
                .ok_or_else(|| not_a("key of this file", path))?;
            Ok(page.remove(&container, at))
        }
        Step::Take { path, text: item } => {
            let found = find(root, path);
            let container = Container::list(found, path)?;
            let is_item = |value: &ast::Value<'_>| {
                value.as_string_lit().is_some_and(|text| text.value == item.as_str())
            };
            let at = found
                .and_then(ast::Value::as_array)
                .and_then(|array| array.elements.iter().position(is_item))
                .ok_or_else(|| format!("`{item}` is not in `{}`", path.join(".")))?;
            Ok(page.remove(&container, at))
        }
    }
}

fn find<'a, 'b>(root: &'b ast::Value<'a>, path: &[String]) -> Option<&'b ast::Value<'a>> {
    path.iter().try_fold(root, |value, key| {
        let mut properties = value.as_object()?.properties.iter();
        Some(&properties.find(|property| name(property) == key)?.value)
    })
}

fn name<'b>(property: &'b ast::ObjectProp<'_>) -> &'b str {
    match &property.name {
        ObjectPropName::String(name) => &name.value,
        ObjectPropName::Word(name) => name.value,
    }
}

/// A table or list: where its brackets are, and each of its children.
struct Container {
    open: usize,
    close: usize,
    children: Vec<(usize, usize)>,
}

impl Container {
    fn table(value: Option<&ast::Value<'_>>, path: &[String]) -> Result<Self, Problem> {
        let object = value.and_then(ast::Value::as_object).ok_or_else(|| not_a("table", path))?;
        let children = object.properties.iter().map(|child| (child.range.start, child.range.end)).collect();
        Ok(Self { open: object.range.start, close: object.range.end - 1, children })
    }

    fn list(value: Option<&ast::Value<'_>>, path: &[String]) -> Result<Self, Problem> {
        let array = value.and_then(ast::Value::as_array).ok_or_else(|| not_a("list", path))?;
        let child = |child: &ast::Value<'_>| (child.range().start, child.range().end);
        Ok(Self {
            open: array.range.start,
            close: array.range.end - 1,
            children: array.elements.iter().map(child).collect(),
        })
    }
}

/// A text with its tokens, comments among them.
struct Page<'a> {
    text: &'a str,
    tokens: Vec<TokenAndRange<'a>>,
}

impl Page<'_> {
    fn line_break(&self) -> &'static str {
        if self.text.contains("\r\n") { "\r\n" } else { "\n" }
    }

    /// One level of indentation: that of the first indented line.
    fn unit(&self) -> &str {
        let indents = self.text.lines().filter(|line| !line.trim().is_empty()).map(indent);
        indents.filter(|indent| !indent.is_empty()).min_by_key(|indent| indent.len()).unwrap_or("  ")
    }

    fn indent_of_line(&self, at: usize) -> &str {
        let start = self.text[..at].rfind('\n').map_or(0, |found| found + 1);
        indent(&self.text[start..])
    }

    /// A text with the first value, where there were comments or nothing.
    fn first_value(&self, key: &str, value: &Value) -> String {
        let line = self.line_break();
        let before = self.text.trim_end();
        let gap = if before.is_empty() { "" } else { line };
        let table = Value::Object(serde_json::Map::from_iter([(key.to_owned(), value.clone())]));
        format!("{before}{gap}{}{line}", self.render(&table, Some("")))
    }

    fn insert(&self, container: &Container, key: Option<&str>, value: &Value) -> String {
        let Container { open, close, children } = container;
        let line = self.line_break();
        let inner = &self.text[open + 1..*close];
        let own = self.indent_of_line(*open);
        let is_short =
            !inner.contains('\n') && (!children.is_empty() || (key.is_none() && !value.is_object()));
        let child_indent = match children.last() {
            Some((start, _)) if self.starts_line(*start) => self.indent_of_line(*start).to_owned(),
            _ => format!("{own}{}", self.unit()),
        };
        let key = key.map(|key| format!("{}: ", Value::from(key))).unwrap_or_default();
        let child = format!("{key}{}", self.render(value, (!is_short).then_some(&child_indent)));
        let (text, mut splices) = (self.text, Vec::new());
        match children.last() {
            None => {
                // After the comments that stand in it, if there are any.
                let comment = self.tokens_in(*open + 1, *close).last().map(|token| token.range);
                let at = comment.map_or(open + 1, |range| range.end);
                let (before, after) = match () {
                    () if is_short => (String::new(), String::new()),
                    () if text[at..*close].contains('\n') => (format!("{line}{child_indent}"), String::new()),
                    () => (format!("{line}{child_indent}"), format!("{line}{own}")),
                };
                splices.push((at, format!("{before}{child}{after}")));
            }
            Some((_, end)) => {
                let comma = self.comma_between(*end, *close);
                let ends_with_comma = if comma.is_some() { "," } else { "" };
                let after = comma.map_or(*end, |comma| comma + 1);
                if comma.is_none() {
                    splices.push((*end, ",".to_owned()));
                }
                let gap = if is_short { " ".to_owned() } else { format!("{line}{child_indent}") };
                splices.push((
                    self.after_comments_of_line(after, *close),
                    format!("{gap}{child}{ends_with_comma}"),
                ));
            }
        }
        let mut out = text.to_owned();
        for (at, inserted) in splices.iter().rev() {
            out.insert_str(*at, inserted);
        }
        out
    }

    /// Removes a child with its comma and the blanks before it.
    fn remove(&self, container: &Container, at: usize) -> String {
        let Container { open, close, children } = container;
        let (start, end) = children[at];
        let text = self.text;
        let before = self.tokens.iter().rev().find(|token| token.range.end <= start);
        let from = before.map_or(open + 1, |token| token.range.end).max(open + 1);
        let to = children.get(at + 1).map_or(*close, |next| next.0);
        let out = match self.comma_between(end, to) {
            // The next child takes its place on the line.
            Some(comma) if to < *close && text[comma + 1..to].bytes().all(|byte| byte == b' ') => {
                format!("{}{}", &text[..start], &text[to..])
            }
            Some(comma) => format!("{}{}", &text[..from], &text[comma + 1..]),
            None => {
                let previous = at.checked_sub(1).map(|previous| children[previous].1);
                match previous.and_then(|previous| self.comma_between(previous, start)) {
                    Some(comma) => format!("{}{}{}", &text[..comma], &text[comma + 1..from], &text[end..]),
                    None => format!("{}{}", &text[..from], &text[end..]),
                }
            }
        };
        // An empty table needs no lines.
        let rest = out.len() - (text.len() - close);
        if children.len() == 1 && out[open + 1..rest].trim().is_empty() {
            return format!("{}{}", &out[..=*open], &out[rest..]);
        }
        out
    }

    fn tokens_in(&self, from: usize, to: usize) -> impl Iterator<Item = &TokenAndRange<'_>> {
        self.tokens.iter().filter(move |token| token.range.start >= from && token.range.end <= to)
    }

    fn comma_between(&self, from: usize, to: usize) -> Option<usize> {
        self.tokens_in(from, to).find(|token| token.token == Token::Comma).map(|token| token.range.start)
    }

    /// The end of the comments that follow on the same line, since they belong to what is before them.
    fn after_comments_of_line(&self, from: usize, to: usize) -> usize {
        let line_end = self.text[from..].find('\n').map_or(self.text.len(), |found| from + found).min(to);
        let is_comment = |token: &&TokenAndRange<'_>| {
            matches!(token.token, Token::CommentLine(_) | Token::CommentBlock(_))
        };
        self.tokens_in(from, line_end).take_while(is_comment).last().map_or(from, |comment| comment.range.end)
    }

    fn starts_line(&self, at: usize) -> bool {
        let start = self.text[..at].rfind('\n').map_or(0, |found| found + 1);
        self.text[start..at].trim().is_empty()
    }

    /// A value as text: on one line, or tables over several lines with this indentation. Lists of texts stay on one line.
    fn render(&self, value: &Value, indent: Option<&str>) -> String {
        match (value, indent) {
            (Value::Object(table), None) => {
                let entries: Vec<String> = table
                    .iter()
                    .map(|(key, value)| {
                        format!("{}: {}", Value::from(key.as_str()), self.render(value, None))
                    })
                    .collect();
                format!("{{{}}}", entries.join(", "))
            }
            (Value::Object(table), Some(indent)) if !table.is_empty() => {
                let (line, inner) = (self.line_break(), format!("{indent}{}", self.unit()));
                let entries: Vec<String> = table
                    .iter()
                    .map(|(key, value)| {
                        format!("{inner}{}: {}", Value::from(key.as_str()), self.render(value, Some(&inner)))
                    })
                    .collect();
                format!("{{{line}{}{line}{indent}}}", entries.join(&format!(",{line}")))
            }
            (Value::Array(list), _) => {
                let items: Vec<String> = list.iter().map(|item| self.render(item, None)).collect();
                format!("[{}]", items.join(", "))
            }
            (value, _) => value.to_string(),
        }
    }
}

fn indent(line: &str) -> &str {
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}
