//! Formatting for the terminal. anstream removes colours where they are not supported or not wanted.

use std::io::Write;
use std::time::{Duration, SystemTime};

use anstyle::{AnsiColor, Style};
use haft_core::{Fault, is_invisible};
use unicode_width::UnicodeWidthStr as _;

use crate::args::ColorWhen;

pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default();
pub(crate) const DANGER: Style =
    AnsiColor::White.on_default().bg_color(Some(anstyle::Color::Ansi(AnsiColor::Red))).bold();
pub(crate) const NAME: Style = AnsiColor::Cyan.on_default();

/// Sets when colours are used, for all output from now on.
pub(crate) fn use_colors(when: ColorWhen) {
    let choice = match when {
        ColorWhen::Auto => anstream::ColorChoice::Auto,
        ColorWhen::Always => anstream::ColorChoice::Always,
        ColorWhen::Never => anstream::ColorChoice::Never,
    };
    choice.write_global();
}

/// Whether the terminal of standard error is used with colours.
pub(crate) fn has_colors() -> bool {
    anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never
}

/// Text for the terminal itself, without colours where they are not wanted.
pub(crate) fn for_terminal(text: &str) -> String {
    if has_colors() { text.to_owned() } else { anstream::adapter::strip_str(text).to_string() }
}

/// Prints an error with its causes on stderr.
pub(crate) fn report(error: &anyhow::Error) {
    let mut stderr = anstream::stderr();
    let mut text = error.to_string();
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    let _ = writeln!(stderr, "{BAD}error:{BAD:#} {}", sanitize(&text));
}

/// Prints a note on stderr.
pub(crate) fn notice(text: &str) {
    let _ = writeln!(anstream::stderr(), "{BOLD}note:{BOLD:#} {}", sanitize(text));
}

/// Converts a fault to an error of the command itself.
pub(crate) fn fault_error(fault: &Fault) -> anyhow::Error {
    anyhow::anyhow!("{fault}")
}

/// Escapes characters that would control the terminal or be invisible, in text from files, models and servers.
pub(crate) fn sanitize(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => out.push(c),
            c if c.is_control() || is_invisible(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

/// Sanitizes text that must stay on one line, such as a name: after a line break in it, the rest would look like haft's own
/// output.
pub(crate) fn one_line(text: &str) -> String {
    sanitize(text).replace('\n', "\\n").replace('\t', "\\t")
}

/// Lays parts out in lines of at most so many columns: a line breaks between parts, and within one only if it is wider
/// than a line. Colours have no width.
pub(crate) fn flow<'a>(parts: impl IntoIterator<Item = &'a str>, gap: &str, columns: usize) -> String {
    let width = |text: &str| anstream::adapter::strip_str(text).map(|plain| plain.width()).sum::<usize>();
    let mut text = String::new();
    let mut used = 0;
    for (at, part) in parts.into_iter().enumerate() {
        let own = width(part);
        if used > 0 && used + gap.len() + own > columns {
            text.push('\n');
            used = 0;
        } else if at > 0 {
            text.push_str(gap);
            used += gap.len();
        }
        text.push_str(part);
        used += own;
    }
    text
}

/// Breaks a line of prose between its words.
pub(crate) fn wrap(line: &str, columns: usize) -> String {
    flow(line.split(' '), " ", columns)
}

/// The width of the terminal on which a person is asked.
pub(crate) fn columns() -> usize {
    terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0)).max(20)
}

/// Escapes text for a cell of a Markdown table.
pub(crate) fn cell(text: &str) -> String {
    text.replace('\n', " ").replace('|', "\\|")
}

/// Colours a line of a diff.
pub(crate) fn diff_line(line: &str) -> String {
    let style = match line.as_bytes() {
        [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] => BOLD,
        [b'+', ..] => GOOD,
        [b'-', ..] => BAD,
        [b'@', b'@', ..] => NAME,
        _ => Style::new(),
    };
    format!("{style}{}{style:#}", sanitize(line))
}

/// The time since `time`, in the largest fitting unit.
pub(crate) fn ago(time: SystemTime) -> String {
    let seconds = time.elapsed().unwrap_or_default().as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// Formats a duration with three significant digits.
pub(crate) fn duration(took: Duration) -> String {
    let seconds = took.as_secs_f64();
    let (value, unit) = match seconds {
        s if s >= 1.0 => (s, "s"),
        s if s >= 1e-3 => (s * 1e3, "ms"),
        s => (s * 1e6, "µs"),
    };
    let digits = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_parts() {
        let key = format!("{BOLD}[y]{BOLD:#} once");
        assert_eq!(flow([key.as_str(), "[n] no"], "  ", 16), format!("{key}  [n] no"));
        assert_eq!(flow([key.as_str(), "[n] no"], "  ", 15), format!("{key}\n[n] no"));
        assert_eq!(wrap("a wide 漢字 text", 9), "a wide\n漢字 text");
        assert_eq!(wrap("unbreakable", 5), "unbreakable");
    }
}
