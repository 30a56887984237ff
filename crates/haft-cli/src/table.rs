//! Tables for people, which fit the terminal: long cells are wrapped. In a pipe each row is one line.

use std::io::IsTerminal as _;

use comfy_table::{ContentArrangement, Table, presets};
use unicode_width::UnicodeWidthStr as _;

use crate::style::{BOLD, one_line};

/// A table with a header. Cells are sanitized.
pub(crate) struct Rows {
    table: Table,
    has_header: bool,
}

impl Rows {
    /// An empty table; without a header if no column has a name.
    pub(crate) fn new(header: &[&str]) -> Self {
        Self::indented(0, header)
    }

    /// An empty table that is indented by so many columns afterwards.
    pub(crate) fn indented(indent: u16, header: &[&str]) -> Self {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING);
        match width() {
            Some(width) => {
                table
                    .set_content_arrangement(ContentArrangement::Dynamic)
                    .set_width(width.saturating_sub(indent));
            }
            None => {
                table.set_content_arrangement(ContentArrangement::Disabled);
            }
        }
        let has_header = header.iter().any(|name| !name.is_empty());
        if has_header {
            table.set_header(header);
        }
        Self { table, has_header }
    }

    /// Adds a row.
    pub(crate) fn add<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.table.add_row(cells.into_iter().map(|cell| one_line(cell.as_ref())));
    }

    /// Whether there is no row.
    pub(crate) fn is_empty(&self) -> bool {
        self.table.row_count() == 0
    }

    /// Aligns the columns of numbers to the right.
    pub(crate) fn numbers(&mut self, columns: impl IntoIterator<Item = usize>) {
        for column in columns {
            if let Some(column) = self.table.column_mut(column) {
                column.set_cell_alignment(comfy_table::CellAlignment::Right);
            }
        }
    }
}

impl std::fmt::Display for Rows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut table = self.table.clone();
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        let text = table.trim_fmt();
        let mut lines = text.lines();
        if let Some(header) = lines.next().filter(|_| self.has_header) {
            writeln!(f, "{BOLD}{header}{BOLD:#}")?;
        } else if let Some(first) = text.lines().next() {
            writeln!(f, "{first}")?;
        }
        lines.try_for_each(|line| writeln!(f, "{line}"))
    }
}

/// Text in lines that fit the terminal, after a first column of so many characters that is already printed.
pub(crate) fn hanging(text: &str, indent: usize) -> String {
    match width() {
        Some(width) => wrapped(text, indent, usize::from(width).saturating_sub(indent).max(20)),
        None => text.to_owned(),
    }
}

fn wrapped(text: &str, indent: usize, columns: usize) -> String {
    let blanks = " ".repeat(indent);
    let mut out = String::new();
    for (at, line) in text.lines().enumerate() {
        if at > 0 {
            out.push('\n');
            out.push_str(&blanks);
        }
        let mut used = 0;
        for (at, word) in line.split(' ').enumerate() {
            let size = word.width();
            if at > 0 && used + 1 + size > columns {
                out.push('\n');
                out.push_str(&blanks);
                used = 0;
            } else if at > 0 {
                out.push(' ');
                used += 1;
            }
            out.push_str(word);
            used += size;
        }
    }
    out
}

/// The width of the terminal; `None` where standard output is none.
pub(crate) fn width() -> Option<u16> {
    let stdout = std::io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    let columns = terminal_size::terminal_size_of(stdout).map(|(width, _)| width.0);
    Some(columns.filter(|columns| *columns > 20).unwrap_or(80))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_hangs_below_its_first_line() {
        assert_eq!(wrapped("one two three", 2, 8), "one two\n  three");
        assert_eq!(wrapped("a\nverylongword b", 1, 4), "a\n verylongword\n b");
    }
}
