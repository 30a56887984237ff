//! A turn as a person sees it: what was called, what waited for what, what came out, how long it took.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use haft_core::events::{EventKind, EventPayload, Subscription};
use haft_core::{Fault, Reply, Session};

use crate::style::{BAD, BOLD, DIM, GOOD, NAME, duration, harmless, one_line};

/// How many lines of a reply are shown.
const MAX_LINES: usize = 8;

/// A turn that is being watched.
pub(super) struct Shown {
    events: Subscription,
    session: Session,
    began: Instant,
}

/// What the events told of one call.
#[derive(Default)]
struct Told {
    about: Option<String>,
    waits: Vec<String>,
    took: Duration,
}

impl Shown {
    pub(super) fn new(session: &Session) -> Self {
        let kinds = [EventKind::Started, EventKind::Waiting, EventKind::Ended];
        let events = session.engine().activity().subscribe_to(&kinds);
        Self { events, session: session.clone(), began: Instant::now() }
    }

    pub(super) fn print(mut self, number: usize, replies: &[Reply]) -> anyhow::Result<()> {
        let wall = self.began.elapsed();
        let mut told: HashMap<Arc<str>, Told> = HashMap::new();
        while let Some(event) = self.events.try_next() {
            let call = told.entry(event.call.clone()).or_default();
            match &event.what {
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
        let work: Duration = told.values().map(|call| call.took).sum();
        writeln!(
            out,
            "{BOLD}turn {number}{BOLD:#} {DIM}· {} · {} {calls} in {}, {} of work{DIM:#}",
            self.session.dialect().name(),
            replies.len(),
            duration(wall),
            duration(work),
        )?;
        for reply in replies {
            let call = told.remove(&reply.id).unwrap_or_default();
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
                writeln!(out, "      {}", harmless(&line.replace('\n', " ")))?;
            }
        }
        writeln!(out)?;
        Ok(())
    }
}

/// A line that could not be read.
pub(super) fn fault(fault: &Fault) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    writeln!(out, "{BAD}✗{BAD:#} {}\n", harmless(&fault.to_string()))?;
    Ok(())
}
