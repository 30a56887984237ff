//! `haft sessions`: the sessions that are kept of a workspace, and how to remove them.

use std::io::Write;
use std::process::ExitCode;
use std::time::SystemTime;

use serde_json::json;

use crate::args::{Common, SessionsCommand};
use crate::host;
use crate::style::{self, DIM, one_line};
use crate::table::Rows;

/// What belongs to a session: its state, its lock and its plan.
const FILES: [(&str, &str); 3] = [("sessions", ".json"), ("sessions", ".json.lock"), ("plans", ".md")];

pub(super) fn run(common: &Common, command: Option<SessionsCommand>) -> anyhow::Result<ExitCode> {
    match command {
        None | Some(SessionsCommand::List) => list(common),
        Some(SessionsCommand::Remove { names }) => remove(common, &names),
    }
}

fn list(common: &Common) -> anyhow::Result<ExitCode> {
    let environment = host::lenient_environment(common)?;
    let here = haft_sandbox::terminal::place();
    let mut entries = environment.state.folder("sessions").entries()?;
    entries.retain(|entry| entry.name.ends_with(".json"));
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.modified));
    let mut rows = Rows::new(&["session", "used", "files seen", "rules granted", "folder"]);
    let mut list = Vec::new();
    for entry in &entries {
        let name = entry.name.trim_end_matches(".json");
        // A session that cannot be read is listed, so that it can be removed.
        let saved = haft_host::load_session(&environment.state, name).ok().flatten();
        let (seen, grants) = saved.as_ref().map_or((0, 0), |saved| (saved.seen.len(), saved.grants.len()));
        let folder = match &saved {
            Some(saved) => saved.cwd.clone().unwrap_or_default(),
            None => "cannot be read".to_owned(),
        };
        let is_here = here.as_deref() == Some(name);
        let shown = if is_here { format!("{name} (here)") } else { name.to_owned() };
        rows.add([shown, style::ago(entry.modified), seen.to_string(), grants.to_string(), folder.clone()]);
        let used = entry.modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        list.push(json!({
            "session": name,
            "is_here": is_here,
            "used_ms": used.as_millis() as u64,
            "files_seen": seen,
            "rules_granted": grants,
            "folder": folder,
        }));
    }
    rows.numbers([2, 3]);
    let mut out = anstream::stdout().lock();
    if common.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&list)?)?;
    } else if rows.is_empty() {
        let root = one_line(&environment.root.display().to_string());
        writeln!(out, "{DIM}no session is kept of {root}{DIM:#}")?;
    } else {
        write!(out, "{rows}")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Removes sessions. One that does not exist fails the command, after the others were removed.
fn remove(common: &Common, names: &[String]) -> anyhow::Result<ExitCode> {
    let environment = host::lenient_environment(common)?;
    let mut code = ExitCode::SUCCESS;
    let mut out = anstream::stdout().lock();
    for name in names {
        let shown = one_line(name);
        if !environment.state.folder("sessions").has(&format!("{name}.json"))? {
            style::report(&anyhow::anyhow!("there is no session `{shown}` here; `haft sessions` lists them"));
            code = ExitCode::FAILURE;
            continue;
        }
        for (folder, end) in FILES {
            let (store, file) = (environment.state.folder(folder), format!("{name}{end}"));
            if store.has(&file)? {
                store.remove(&file)?;
            }
        }
        writeln!(out, "removed the session `{shown}`; its changes stay in `haft history`")?;
    }
    Ok(code)
}
