//! Shows a turn to a person: the calls, what each waited for, their results and times.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use haft_core::events::{EventKind, EventPayload, Subscription};
use haft_core::{Fault, Reply, Session};

use crate::style::{BAD, BOLD, DIM, GOOD, NAME, duration, one_line, sanitize};

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
            for line in lines {
                writeln!(out, "      {}", sanitize(&line.replace('\n', " ")))?;
            }
        }
        writeln!(out)?;
        Ok(())
    }
}

/// Prints the fault of an invalid line.
pub(super) fn fault(fault: &Fault) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    writeln!(out, "{BAD}✗{BAD:#} {}\n", sanitize(&fault.to_string()))?;
    Ok(())
}
