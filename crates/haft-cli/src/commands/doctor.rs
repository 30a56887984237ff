//! `haft doctor`: what is in force here. Fails when something that haft needs does not work.

use std::io::Write;
use std::process::ExitCode;

use haft::Workspace;
use serde_json::json;

use crate::args::Common;
use crate::config::{Presence, Trust};
use crate::host::{self, Ground};
use crate::style::{BAD, BOLD, DIM, GOOD};

/// One thing that was looked at.
struct Finding {
    what: &'static str,
    state: State,
    detail: String,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Good,
    Note,
    Bad,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            State::Good => "ok",
            State::Note => "note",
            State::Bad => "bad",
        }
    }
}

pub(super) fn run(common: &Common) -> anyhow::Result<ExitCode> {
    let ground = Ground::look(common)?;
    let findings = look(common, &ground);
    let healthy = findings.iter().all(|finding| finding.state != State::Bad);
    let mut out = anstream::stdout().lock();
    if common.json {
        let rows: Vec<_> = findings
            .iter()
            .map(|finding| json!({"what": finding.what, "state": finding.state.word(), "detail": finding.detail}))
            .collect();
        writeln!(out, "{}", serde_json::to_string_pretty(&rows)?)?;
    } else {
        writeln!(out, "{BOLD}haft {}{BOLD:#}", env!("CARGO_PKG_VERSION"))?;
        for Finding { what, state, detail } in &findings {
            let (mark, style) = match state {
                State::Good => ("✓", GOOD),
                State::Note => ("·", DIM),
                State::Bad => ("✗", BAD),
            };
            writeln!(out, "{style}{mark}{style:#} {what:12} {detail}")?;
        }
    }
    Ok(if healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn look(common: &Common, ground: &Ground) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut find = |what, state, detail: String| findings.push(Finding { what, state, detail });
    match Workspace::open(&ground.root) {
        Ok(workspace) => {
            find("workspace", State::Good, workspace.root().to_string());
            find("confinement", State::Good, workspace.confinement().to_owned());
        }
        Err(error) => find("workspace", State::Bad, error.to_string()),
    }
    match host::dialect(common.dialect.as_deref(), &ground.loaded.settings) {
        Ok(dialect) => find("dialect", State::Good, format!("{}: {}", dialect.name(), dialect.summary())),
        Err(error) => find("dialect", State::Bad, error.to_string()),
    }
    for (file, presence) in &ground.loaded.files {
        match presence {
            Presence::Found => find("settings", State::Good, file.display().to_string()),
            Presence::Missing => find("settings", State::Note, format!("{} (not there)", file.display())),
        }
    }
    match (ground.loaded.trust, ground.loaded.ignored.as_slice()) {
        (Trust::Full, _) => {
            find("trust", State::Good, "this folder's own settings are followed in full".to_owned())
        }
        (Trust::None, []) => find(
            "trust",
            State::Note,
            "not trusted: this folder's own settings could only make haft stricter".to_owned(),
        ),
        (Trust::None, ignored) => {
            find("trust", State::Note, format!("not trusted; ignored: {}", ignored.join(", ")))
        }
    }
    let hooks = &ground.loaded.settings.hooks;
    for (event, hooks) in [
        ("before", &hooks.pre_tool_use),
        ("after", &hooks.post_tool_use),
        ("after failure", &hooks.post_tool_use_failure),
    ] {
        for hook in hooks {
            let tools = if hook.matcher.is_empty() { "every tool" } else { &hook.matcher };
            find("hook", State::Good, format!("{event} {tools}: {}", hook.command));
        }
    }
    let results = ground.state.folder("results");
    match results.make().and_then(|()| results.entries()) {
        Ok(kept) => {
            let bytes: u64 = kept.iter().map(|entry| entry.size).sum();
            find(
                "state",
                State::Good,
                format!("{} ({} kept replies, {bytes} bytes)", ground.state.dir().display(), kept.len()),
            );
        }
        Err(error) => find("state", State::Bad, format!("{}: {error}", ground.state.dir().display())),
    }
    find("user folder", State::Note, ground.folders.config.display().to_string());
    findings
}
