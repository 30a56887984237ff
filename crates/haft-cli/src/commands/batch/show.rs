//! Shows a turn to a person: the calls, what each waited for, their results and times.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use haft_core::events::{EventKind, EventPayload, Subscription};
use haft_core::replies::Audience;
use haft_core::{Fault, FaultKind, Reply, Session};

use crate::style::{BAD, BOLD, DIM, GOOD, NAME, diff_line, duration, one_line, sanitize};

/// Maximum number of lines shown of a reply.
const MAX_LINES: usize = 8;

/// Collects the events of a turn.
pub(super) struct TurnView {
    events: Subscription,
    session: Session,
    started: Instant,
}

/// What the events of one call say.
#[derive(Default)]
struct CallSummary {
    about: Option<String>,
    waits: Vec<String>,
    took: Duration,
}

impl TurnView {
    pub(super) fn new(session: &Session) -> Self {
        let kinds = [EventKind::Started, EventKind::Waiting, EventKind::Ended];
        let events = session.engine().activity().subscribe_to(&kinds);
        Self { events, session: session.clone(), started: Instant::now() }
    }

    pub(super) fn print(mut self, number: usize, replies: &[Reply]) -> anyhow::Result<()> {
        let elapsed = self.started.elapsed();
        let mut summaries: HashMap<Arc<str>, CallSummary> = HashMap::new();
        while let Some(event) = self.events.try_next() {
            let call = summaries.entry(event.call.clone()).or_default();
            match &event.payload {
                EventPayload::Started { input } => {
                    call.about =
                        self.session.tools().get(&event.tool).and_then(|tool| tool.preview_use(input));
                }
                EventPayload::Waiting { on, resource } => {
                    call.waits.push(format!("waited for {on}: {resource}"))
                }
                EventPayload::Ended { took, .. } => call.took = *took,
                _ => {}
            }
        }
        let mut out = anstream::stdout().lock();
        let calls = if replies.len() == 1 { "call" } else { "calls" };
        let work: Duration = summaries.values().map(|call| call.took).sum();
        writeln!(
            out,
            "{BOLD}turn {number}{BOLD:#} {DIM}· {} · {} {calls} in {}, {} of work{DIM:#}",
            self.session.dialect().name(),
            replies.len(),
            duration(elapsed),
            duration(work),
        )?;
        for reply in replies {
            let call = summaries.remove(&reply.id).unwrap_or_default();
            let (mark, style) = if reply.is_error { ("✗", BAD) } else { ("✓", GOOD) };
            let name = one_line(&reply.name);
            let about = one_line(&call.about.unwrap_or_default());
            writeln!(
                out,
                "  {style}{mark}{style:#} {NAME}{name}{NAME:#} {about} {DIM}{}{DIM:#}",
                duration(call.took)
            )?;
            for wait in call.waits {
                writeln!(out, "      {DIM}{}{DIM:#}", one_line(&wait))?;
            }
            let lines = match self.session.tools().get(&reply.name) {
                Some(tool) => tool.preview_result(reply, MAX_LINES),
                None => haft_core::preview_result(reply, MAX_LINES),
            };
            let is_diff = lines.iter().any(|line| line.starts_with("@@ "));
            for line in lines {
                let line = line.replace('\n', " ");
                let line = if is_diff { diff_line(&line) } else { sanitize(&line) };
                writeln!(out, "      {line}")?;
            }
            for note in notes(reply) {
                writeln!(out, "      {DIM}{}{DIM:#}", one_line(note))?;
            }
        }
        writeln!(out)?;
        Ok(())
    }
}

/// The notes that haft added for the model, such as what it repaired in the arguments.
fn notes(reply: &Reply) -> impl Iterator<Item = &str> {
    let blocks = reply.content.iter().filter(|block| block.audience == Audience::Model);
    let texts = blocks.filter_map(|block| block.content.text()).filter(|text| text.starts_with("note: "));
    texts.filter_map(|text| text.lines().next())
}

/// What came of all calls of a batch.
#[derive(Default)]
pub(super) struct Summary {
    succeeded: usize,
    failed: usize,
    denied: usize,
}

impl Summary {
    pub(super) fn add(&mut self, replies: &[Reply]) {
        for reply in replies {
            let is_denied = reply.fault().is_some_and(|fault| fault.kind() == FaultKind::Denied);
            match reply.is_error {
                true if is_denied => self.denied += 1,
                true => self.failed += 1,
                false => self.succeeded += 1,
            }
        }
    }

    pub(super) fn print(&self) -> anyhow::Result<()> {
        let Self { succeeded, failed, denied } = self;
        let calls = succeeded + failed + denied;
        writeln!(
            anstream::stdout(),
            "{BOLD}{calls} calls{BOLD:#}: {GOOD}{succeeded} succeeded{GOOD:#}, {BAD}{failed} failed{BAD:#}, {denied} denied. \
             {DIM}`haft history` shows what was changed, `haft audit` what was decided{DIM:#}"
        )?;
        Ok(())
    }
}

/// Prints the fault of an invalid line.
pub(super) fn fault(fault: &Fault) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    writeln!(out, "{BAD}✗{BAD:#} {}\n", sanitize(&fault.to_string()))?;
    Ok(())
}
