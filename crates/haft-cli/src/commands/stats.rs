//! `haft stats`: calls, failures and latencies of each tool in a workspace.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use haft_core::stats::ToolStats;
use serde_json::{Value, json};

use crate::args::Common;
use crate::host;
use crate::style::{DIM, duration, one_line};
use crate::table::{self, Rows};

pub(super) fn run(common: &Common) -> anyhow::Result<ExitCode> {
    let environment = host::lenient_environment(common)?;
    let stats = haft_host::stats(&environment.state)?;
    let mut out = anstream::stdout().lock();
    if common.json {
        let rows: Vec<Value> = stats.iter().map(|(tool, stats)| row(tool, stats)).collect();
        writeln!(out, "{}", serde_json::to_string_pretty(&rows)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if stats.is_empty() {
        writeln!(
            out,
            "{DIM}no call has been made in {}{DIM:#}",
            one_line(&environment.root.display().to_string())
        )?;
        return Ok(ExitCode::SUCCESS);
    }
    let columns = columns();
    let header: Vec<&str> = std::iter::once("tool").chain(columns.iter().map(|(name, _)| *name)).collect();
    let mut rows = Rows::new(&header);
    for (tool, stats) in &stats {
        rows.add(std::iter::once(tool.clone()).chain(columns.iter().map(|(_, cell)| cell(stats))));
    }
    rows.numbers(1..header.len());
    write!(out, "{rows}")?;
    Ok(ExitCode::SUCCESS)
}

/// The terminal must have as many columns as this for all of the figures.
const WIDE: u16 = 120;

type Cell = fn(&ToolStats) -> String;

/// The figures that have space, the most useful ones first where not all have.
fn columns() -> Vec<(&'static str, Cell)> {
    let all: [(&'static str, Cell, bool); 11] = [
        ("calls", |stats| stats.calls.to_string(), true),
        ("ok", |stats| stats.successes.to_string(), true),
        ("failed", |stats| stats.failures.to_string(), true),
        ("denied", |stats| stats.denials.to_string(), true),
        (
            "success",
            |stats| {
                stats.success_rate().map_or_else(|| "-".to_owned(), |rate| format!("{:.1} %", rate * 100.0))
            },
            false,
        ),
        ("total", |stats| duration(Duration::from_nanos(stats.total_ns)), false),
        ("average", |stats| shown(stats.average()), true),
        ("min", |stats| duration(Duration::from_nanos(stats.min_ns)), false),
        ("p50", |stats| shown(stats.p50()), false),
        ("p95", |stats| shown(stats.p95()), true),
        ("max", |stats| duration(Duration::from_nanos(stats.max_ns)), false),
    ];
    let is_wide = table::width().is_none_or(|width| width >= WIDE);
    all.into_iter()
        .filter(|(_, _, is_main)| is_wide || *is_main)
        .map(|(name, cell, _)| (name, cell))
        .collect()
}

fn shown(took: Option<Duration>) -> String {
    took.map_or_else(|| "-".to_owned(), duration)
}

fn row(tool: &str, stats: &ToolStats) -> Value {
    let nanos = |took: Option<Duration>| took.map(|took| took.as_nanos() as u64);
    json!({
        "tool": tool,
        "calls": stats.calls,
        "successes": stats.successes,
        "failures": stats.failures,
        "denials": stats.denials,
        "success_rate": stats.success_rate(),
        "total_ns": stats.total_ns,
        "average_ns": nanos(stats.average()),
        "min_ns": stats.min_ns,
        "p50_ns": nanos(stats.p50()),
        "p95_ns": nanos(stats.p95()),
        "max_ns": stats.max_ns,
    })
}
