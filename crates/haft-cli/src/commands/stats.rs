//! `haft stats`: calls, failures and latencies of each tool in a workspace.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use haft_core::stats::ToolStats;
use serde_json::{Value, json};

use crate::args::Common;
use crate::host;
use crate::style::{BOLD, DIM, NAME, duration, one_line};

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
    // A model may have called a tool that does not exist, by any name.
    let stats: Vec<_> = stats.into_iter().map(|(tool, stats)| (one_line(&tool), stats)).collect();
    let width = stats.iter().map(|(tool, _)| tool.chars().count()).max().unwrap_or_default().max(4);
    let titles = ["calls", "ok", "failed", "success", "total", "average", "min", "p50", "p95", "max"];
    write!(out, "{BOLD}{:width$}{BOLD:#}", "tool")?;
    for title in titles {
        write!(out, "  {BOLD}{title:>9}{BOLD:#}")?;
    }
    writeln!(out)?;
    for (tool, stats) in &stats {
        write!(out, "{NAME}{tool:width$}{NAME:#}")?;
        for cell in cells(stats) {
            write!(out, "  {cell:>9}")?;
        }
        writeln!(out)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn cells(stats: &ToolStats) -> [String; 10] {
    let time = |took: Option<Duration>| took.map_or_else(|| "-".to_owned(), duration);
    let nanos = |ns: u64| duration(Duration::from_nanos(ns));
    [
        stats.calls.to_string(),
        stats.successes.to_string(),
        stats.failures.to_string(),
        stats.success_rate().map_or_else(|| "-".to_owned(), |rate| format!("{:.1} %", rate * 100.0)),
        nanos(stats.total_ns),
        time(stats.average()),
        nanos(stats.min_ns),
        time(stats.p50()),
        time(stats.p95()),
        nanos(stats.max_ns),
    ]
}

fn row(tool: &str, stats: &ToolStats) -> Value {
    let nanos = |took: Option<Duration>| took.map(|took| took.as_nanos() as u64);
    json!({
        "tool": tool,
        "calls": stats.calls,
        "successes": stats.successes,
        "failures": stats.failures,
        "success_rate": stats.success_rate(),
        "total_ns": stats.total_ns,
        "average_ns": nanos(stats.average()),
        "min_ns": stats.min_ns,
        "p50_ns": nanos(stats.p50()),
        "p95_ns": nanos(stats.p95()),
        "max_ns": stats.max_ns,
    })
}
