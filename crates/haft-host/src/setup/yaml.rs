//! Edits of YAML as lines of its text: a table with one key on each line gets a new key, or loses one. Everything else, such
//! as a table in braces, is refused; what is written is parsed again by the caller.

use serde_json::Value;

use super::document::{Problem, Step, not_a};

/// The meaning of a text; null if there is none.
pub(super) fn parse(text: &str) -> Result<Value, Problem> {
    if text.trim().is_empty() {
        return Ok(Value::Null);
    }
    serde_yaml_ng::from_str(text).map_err(|error| error.to_string())
}

/// A text with one change.
pub(super) fn apply(text: &str, step: &Step) -> Result<String, Problem> {
    let page = Page::of(text);
    match step {
        Step::Insert { table, key, value } if table.is_empty() => {
            Ok(page.splice(page.lines.len(), page.lines.len(), &lines_of(key, value, 0)))
        }
        Step::Insert { table, key, value } => page.insert(table, key, value),
        Step::Remove { path } => page.remove(path),
        Step::Replace { path, value } => page.replace(path, value),
        Step::Push { path, .. } | Step::Take { path, .. } => Err(not_a("list that can be edited", path)),
    }
}

struct Page<'a> {
    lines: Vec<&'a str>,
    line_break: &'static str,
}

/// A key's lines: the first, the first after them, and the indentation of the key.
struct Block {
    from: usize,
    to: usize,
    indent: usize,
}

impl<'a> Page<'a> {
    fn of(text: &'a str) -> Self {
        let line_break = if text.contains("\r\n") { "\r\n" } else { "\n" };
        Self { lines: text.split_inclusive('\n').collect(), line_break }
    }

    /// The block of a key among lines of one indentation.
    fn block(&self, key: &str, from: usize, to: usize) -> Option<Block> {
        let first = (from..to).find(|at| is_content(self.lines[*at]))?;
        let indent = indent(self.lines[first]);
        let start = (first..to).find(|at| {
            let line = self.lines[*at];
            is_content(line) && self::indent(line) == indent && key_of(line) == Some(key)
        })?;
        Some(Block { from: start, to: self.end(start, to), indent })
    }

    /// The end of a key's lines. Comments and blank lines before the next key belong to that one.
    fn end(&self, start: usize, to: usize) -> usize {
        let own = indent(self.lines[start]);
        let belongs =
            |line: &str| indent(line) > own || (indent(line) == own && line.trim_start().starts_with("- "));
        let next = (start + 1..to).find(|at| is_content(self.lines[*at]) && !belongs(self.lines[*at]));
        let last = (start..next.unwrap_or(to)).rev().find(|at| is_content(self.lines[*at]));
        last.map_or(start + 1, |last| last + 1)
    }

    fn locate(&self, path: &[String]) -> Result<Block, Problem> {
        let (mut from, mut to, mut found) = (0, self.lines.len(), None);
        for key in path {
            let block = self.block(key, from, to).ok_or_else(|| not_a("key that can be edited", path))?;
            (from, to) = (block.from + 1, block.to);
            found = Some(block);
        }
        found.ok_or_else(|| not_a("key", path))
    }

    fn insert(&self, table: &[String], key: &str, value: &Value) -> Result<String, Problem> {
        let block = self.locate(table)?;
        let (name, rest) = self.lines[block.from].split_once(':').unwrap_or_default();
        // An empty table in braces becomes one of lines.
        let after = rest.trim().strip_prefix("{}").unwrap_or(rest.trim()).trim_start();
        if !(after.is_empty() || after.starts_with('#')) {
            return Err(format!("`{}` is not written with one key on each line", table.join(".")));
        }
        if after.len() < rest.trim().len() {
            let gap = if after.is_empty() { "" } else { " " };
            let head = [format!("{name}:{gap}{after}")].into_iter();
            let lines: Vec<String> = head.chain(lines_of(key, value, block.indent + 2)).collect();
            return Ok(self.splice(block.from, block.from + 1, &lines));
        }
        let first = (block.from + 1..block.to).find(|at| is_content(self.lines[*at]));
        let indent = first.map_or(block.indent + 2, |first| indent(self.lines[first]));
        Ok(self.splice(block.to, block.to, &lines_of(key, value, indent)))
    }

    fn replace(&self, path: &[String], value: &Value) -> Result<String, Problem> {
        let block = self.locate(path)?;
        let key = path.last().ok_or("a path is empty")?;
        Ok(self.splice(block.from, block.to, &lines_of(key, value, block.indent)))
    }

    fn remove(&self, path: &[String]) -> Result<String, Problem> {
        let block = self.locate(path)?;
        if let [above @ .., _] = path
            && let Some(name) = above.last()
        {
            let parent = self.locate(above)?;
            let others = (parent.from + 1..parent.to)
                .any(|at| is_content(self.lines[at]) && !(block.from..block.to).contains(&at));
            if !others {
                // A key without a value is null, not an empty table.
                let comment =
                    self.lines[parent.from].split_once(':').map(|(_, rest)| rest.trim()).unwrap_or_default();
                let gap = if comment.is_empty() { "" } else { " " };
                let line = format!("{}{name}: {{}}{gap}{comment}", " ".repeat(parent.indent));
                let kept = self.splice(block.from, block.to, &[]);
                return Ok(Page::of(&kept).splice(parent.from, parent.from + 1, &[line]));
            }
        }
        Ok(self.splice(block.from, block.to, &[]))
    }

    /// The text with some lines replaced.
    fn splice(&self, from: usize, to: usize, new: &[String]) -> String {
        let mut out = self.lines[..from].concat();
        if !out.is_empty() && !out.ends_with('\n') && !new.is_empty() {
            out.push_str(self.line_break);
        }
        for line in new {
            out.push_str(line);
            out.push_str(self.line_break);
        }
        out.push_str(&self.lines[to..].concat());
        out
    }
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// Whether a line is more than blanks or a comment.
fn is_content(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with('#')
}

/// The key that a line begins with.
fn key_of(line: &str) -> Option<&str> {
    let (key, rest) = line.trim().split_once(':')?;
    let is_key = rest.is_empty() || rest.starts_with([' ', '\t']);
    is_key.then(|| key.trim_matches(['"', '\'']))
}

/// A key with its value, over as many lines as it needs.
fn lines_of(key: &str, value: &Value, indent: usize) -> Vec<String> {
    let blanks = " ".repeat(indent);
    match value {
        Value::Object(table) if !table.is_empty() => {
            let below = table.iter().flat_map(|(key, value)| lines_of(key, value, indent + 2));
            std::iter::once(format!("{blanks}{key}:")).chain(below).collect()
        }
        // JSON is YAML, and quotes keep a text what it is.
        value => vec![format!("{blanks}{key}: {value}")],
    }
}
