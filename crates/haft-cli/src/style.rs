//! Formatting for the terminal. anstream removes colours where they are not supported or not wanted.

use std::io::Write;
use std::time::{Duration, SystemTime};

use anstyle::{AnsiColor, Style};
use haft_core::{Fault, is_invisible};

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
