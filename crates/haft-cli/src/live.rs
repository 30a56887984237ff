//! Shows calls that take long while they run: a line each on stderr, with a spinner, the elapsed time and the last line
//! of output. Nothing is shown where stderr is no terminal. The lines are gone when the calls are done; the reply has
//! everything.

use std::collections::HashMap;
use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use haft_core::Session;
use haft_core::events::{Event, EventKind, EventPayload, Subscription};
use haft_sandbox::terminal::QuietInterrupts;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::style::{self, one_line};

/// A call that ends earlier than this is not shown.
const DELAY: Duration = Duration::from_millis(300);
/// How often the lines are drawn.
const TICK: Duration = Duration::from_millis(100);
/// The widest description of a call, in columns, so that its output has space on the line.
const MAX_ABOUT: usize = 49;
/// Most calls that are shown at the same time.
const MAX_CALLS: usize = 8;

/// The lines on the terminal. There is one terminal, so the whole process shares them.
static LINES: LazyLock<MultiProgress> = LazyLock::new(MultiProgress::new);

/// Hides the lines while something else is on the terminal, such as a question.
pub(crate) fn suspend<T>(show: impl FnOnce() -> T) -> T {
    LINES.suspend(show)
}

/// Shows the running calls of a session until it is dropped. A thread of its own draws, because a question stops it.
pub(crate) struct LiveView {
    state: Arc<ViewState>,
    _quiet: Option<QuietInterrupts>,
    drawing: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct ViewState {
    is_over: AtomicBool,
    is_stopping: AtomicBool,
}

impl LiveView {
    /// Starts to watch a session, if stderr is a terminal and haft is in its foreground.
    pub(crate) fn start(session: &Session) -> Self {
        let state = Arc::new(ViewState::default());
        let quiet = if std::io::stderr().is_terminal() { QuietInterrupts::start() } else { None };
        if quiet.is_none() {
            return Self { state, _quiet: None, drawing: None };
        }
        let kinds = [
            EventKind::Started,
            EventKind::Output,
            EventKind::Progress,
            EventKind::Asked,
            EventKind::Answered,
            EventKind::Ended,
        ];
        let events = session.engine().activity().subscribe_to(&kinds);
        let (session, shared) = (session.clone(), state.clone());
        let drawing = std::thread::spawn(move || draw(&session, events, &shared));
        Self { state, _quiet: quiet, drawing: Some(drawing) }
    }

    /// Shows that the calls were asked to stop.
    pub(crate) fn stopping(&self) {
        self.state.is_stopping.store(true, Ordering::Release);
        self.wake();
    }

    fn wake(&self) {
        if let Some(drawing) = &self.drawing {
            drawing.thread().unpark();
        }
    }
}

impl Drop for LiveView {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::Release);
        self.wake();
        if let Some(drawing) = self.drawing.take() {
            // A panic there costs the lines only.
            let _ = drawing.join();
        }
    }
}

/// A running call.
struct RunningCall {
    about: String,
    since: Instant,
    /// Whether a person thinks about it; the question is on the terminal then.
    is_asked: bool,
    last_line: String,
    line: Option<ProgressBar>,
}

fn draw(session: &Session, mut events: Subscription, state: &ViewState) {
    let mut calls: HashMap<Arc<str>, RunningCall> = HashMap::new();
    while !state.is_over.load(Ordering::Acquire) {
        while let Some(event) = events.try_next() {
            apply(&mut calls, session, &event);
        }
        let is_stopping = state.is_stopping.load(Ordering::Acquire);
        let mut shown = calls.values().filter(|call| call.line.is_some()).count();
        for call in calls.values_mut() {
            let elapsed = call.since.elapsed();
            if call.is_asked || (elapsed < DELAY && !is_stopping) {
                continue;
            }
            if call.line.is_none() {
                if shown == MAX_CALLS {
                    continue;
                }
                shown += 1;
            }
            let line = call.line.get_or_insert_with(new_line);
            let (about, elapsed) = (&call.about, seconds(elapsed));
            let columns = columns();
            let text = match is_stopping {
                true => format!("stopping, Ctrl-C again ends it at once · {about} · {elapsed}"),
                false => status(about, &elapsed, &call.last_line, columns),
            };
            line.set_message(fitting(&text, columns));
            line.tick();
        }
        std::thread::park_timeout(TICK);
    }
    calls.into_values().for_each(RunningCall::clear);
}

fn apply(calls: &mut HashMap<Arc<str>, RunningCall>, session: &Session, event: &Event) {
    if let EventPayload::Started { input } = &event.payload {
        let about = session.tools().get(&event.tool).and_then(|tool| tool.preview_use(input));
        let about = one_line(&format!("{} {}", event.tool, about.unwrap_or_default()));
        let call = RunningCall {
            about: about.trim_end().to_owned(),
            since: Instant::now(),
            is_asked: false,
            last_line: String::new(),
            line: None,
        };
        calls.insert(event.call.clone(), call);
        return;
    }
    let Some(call) = calls.get_mut(&event.call) else { return };
    match &event.payload {
        EventPayload::Output { chunk } => {
            if let Some(line) = last_line(chunk) {
                call.last_line = line;
            }
        }
        EventPayload::Progress(progress) => call.last_line = one_line(&progress.message),
        EventPayload::Asked { .. } => {
            call.is_asked = true;
            call.line.take().iter().for_each(ProgressBar::finish_and_clear);
        }
        EventPayload::Answered { .. } => {
            call.is_asked = false;
            call.since = Instant::now();
        }
        EventPayload::Ended { .. } => {
            if let Some(call) = calls.remove(&event.call) {
                call.clear();
            }
        }
        _ => {}
    }
}

impl RunningCall {
    fn clear(self) {
        if let Some(line) = self.line {
            line.finish_and_clear();
            LINES.remove(&line);
        }
    }
}

fn new_line() -> ProgressBar {
    let template = if style::has_colors() { "{spinner:.cyan} {msg:.dim}" } else { "{spinner} {msg}" };
    let style = ProgressStyle::with_template(template);
    let line =
        ProgressBar::new_spinner().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    LINES.add(line)
}

/// The last line with text in a chunk of output, as a terminal would show it: without colours, and after the last
/// carriage return.
fn last_line(chunk: &str) -> Option<String> {
    let mut lines = chunk.split(['\n', '\r']).map(|line| anstream::adapter::strip_str(line).to_string());
    let last = lines.rfind(|line| !line.trim().is_empty())?;
    Some(one_line(last.trim()))
}

/// The width of a line's text, after the spinner.
fn columns() -> usize {
    let size = terminal_size::terminal_size_of(std::io::stderr());
    size.map_or(80, |(width, _)| usize::from(width.0)).saturating_sub(4).max(10)
}

/// As much of a line as has space in so many columns.
fn fitting(line: &str, columns: usize) -> String {
    let mut used = 0;
    let end = line.char_indices().find(|(_, c)| {
        used += c.width().unwrap_or(0);
        used > columns
    });
    match end {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

/// What a call is, for how long it runs, and its last line of output. Where there is not space for all, the output has two
/// thirds: what the call is, a person knows.
fn status(about: &str, elapsed: &str, last_line: &str, columns: usize) -> String {
    const GAP: &str = " · ";
    let space = columns.saturating_sub(elapsed.width() + 2 * GAP.width());
    let for_about = space.saturating_sub(last_line.width()).max(space / 3).min(MAX_ABOUT);
    // One column is for the mark that something is left out.
    let about = if about.width() > for_about {
        fitting(about, for_about.saturating_sub(1))
    } else {
        about.to_owned()
    };
    format!("{about}{GAP}{elapsed}{GAP}{last_line}")
}

fn seconds(elapsed: Duration) -> String {
    match elapsed.as_secs() {
        few @ 0..60 => format!("{few} s"),
        many => format!("{} min {} s", many / 60, many % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_what_a_terminal_would_show() {
        assert_eq!(last_line("one\ntwo\n"), Some("two".to_owned()));
        assert_eq!(last_line("10 %\r\u{1b}[32m20 %\u{1b}[0m\r"), Some("20 %".to_owned()));
        assert_eq!(last_line("\n \n"), None);
        assert_eq!(last_line("a\u{202e}b"), Some("a\\u{202e}b".to_owned()));
    }

    #[test]
    fn a_long_description_leaves_space_for_the_output() {
        let about = "ä".repeat(100);
        assert_eq!(
            status(&about, "3 s", "built", 100),
            format!("{}… · 3 s · built", "ä".repeat(MAX_ABOUT - 1))
        );
        assert_eq!(status(&about, "3 s", "built", 40), format!("{}… · 3 s · built", "ä".repeat(25)));
        let long = "x".repeat(100);
        assert_eq!(status(&about, "3 s", &long, 39), format!("{}… · 3 s · {long}", "ä".repeat(9)));
        assert_eq!(status("ls", "3 s", "", 40), "ls · 3 s · ");
        assert_eq!(fitting("漢字 and more", 6), "漢字 a…");
        assert_eq!(seconds(Duration::from_secs(75)), "1 min 15 s");
    }
}
