//! A turn as a person sees it: what was called, what waited for what, what came out, how long it took.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use haft::{Call, DynTool, EventKind, Fault, Input, Reply, Session, Subscription, What};

use crate::style::{BAD, BOLD, DIM, GOOD, NAME, duration, harmless};

/// How many lines of a reply are shown.
const MAX_LINES: usize = 8;

/// A turn that is being watched.
pub(super) struct Shown {
    events: Subscription,
    dialect: &'static str,
    uses: Vec<Option<String>>,
    tools: Vec<Option<Arc<dyn DynTool>>>,
    began: Instant,
}

impl Shown {
    pub(super) fn new(session: &Session, calls: &[Call]) -> Self {
        let events = session.engine().activity().subscribe_to(&[EventKind::Waiting, EventKind::Ended]);
        let tools: Vec<_> = calls.iter().map(|call| session.tools().get(&call.name)).collect();
        let uses = calls.iter().zip(&tools).map(|(call, tool)| match (&call.input, tool) {
            (Input::Value(input), Some(tool)) => tool.preview_use(input),
            _ => None,
        });
        Self { uses: uses.collect(), tools, events, dialect: session.dialect().name(), began: Instant::now() }
    }

    pub(super) fn print(mut self, number: usize, replies: &[Reply]) -> anyhow::Result<()> {
        let wall = self.began.elapsed();
        let mut took: HashMap<Arc<str>, Duration> = HashMap::new();
        let mut waited: HashMap<Arc<str>, Vec<String>> = HashMap::new();
        while let Some(event) = self.events.try_next() {
            match &event.what {
                What::Ended { took: time, .. } => {
                    took.insert(event.call.clone(), *time);
                }
                What::Waiting { on, resource } => {
                    waited
                        .entry(event.call.clone())
                        .or_default()
                        .push(format!("waited for {on}: {resource}"));
                }
                _ => {}
            }
        }
        let mut out = anstream::stdout().lock();
        let calls = if replies.len() == 1 { "call" } else { "calls" };
        let work: Duration = took.values().sum();
        writeln!(
            out,
            "{BOLD}turn {number}{BOLD:#} {DIM}· {} · {} {calls} in {} ({} if one after the other){DIM:#}",
            self.dialect,
            replies.len(),
            duration(wall),
            duration(work),
        )?;
        for (at, reply) in replies.iter().enumerate() {
            let (mark, style) = if reply.is_error { ("✗", BAD) } else { ("✓", GOOD) };
            let time = took.get(&reply.id).map(|time| duration(*time)).unwrap_or_default();
            let about = self.uses.get(at).and_then(Option::as_deref).unwrap_or_default();
            writeln!(
                out,
                "  {style}{mark}{style:#} {NAME}{}{NAME:#} {} {DIM}{time}{DIM:#}",
                harmless(&reply.name),
                harmless(about),
            )?;
            for wait in waited.get(&reply.id).into_iter().flatten() {
                writeln!(out, "      {DIM}{}{DIM:#}", harmless(wait))?;
            }
            let lines = match self.tools.get(at) {
                Some(Some(tool)) => tool.preview_result(reply, MAX_LINES),
                _ => haft::preview_result(reply, MAX_LINES),
            };
            for line in lines {
                writeln!(out, "      {}", harmless(&line))?;
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
