//! `haft todos`: the task list of a saved session.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use haft_core::sessions::SavedState as _;
use haft_ops::{Todo, TodoStatus, Todos};

use crate::args::Common;
use crate::host;
use crate::style::{BOLD, DIM, GOOD, one_line};

pub(super) fn run(common: &Common) -> anyhow::Result<ExitCode> {
    let Some(name) = &host::session_name(common) else { bail!("name the session with --session") };
    let environment = host::lenient_environment(common)?;
    let Some(mut saved) = haft_host::load_session(&environment.state, name)? else {
        match common.session {
            Some(_) => bail!("there is no session `{name}` here; `haft sessions` lists them"),
            None => bail!("no call was made at this terminal; name another session with --session"),
        }
    };
    let todos: Todos = match saved.lasting.remove(Todos::NAME) {
        Some(kept) => serde_json::from_value(kept)
            .with_context(|| format!("the list of tasks of the session `{name}` is damaged"))?,
        None => Todos::default(),
    };
    let todos = todos.into_vec();
    let mut out = anstream::stdout().lock();
    if common.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&todos)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if todos.is_empty() {
        writeln!(out, "{DIM}the session `{}` has no tasks{DIM:#}", one_line(name))?;
    }
    for Todo { task, status, active, .. } in &todos {
        let task = one_line(task);
        match status {
            TodoStatus::Pending => writeln!(out, "[ ] {task}")?,
            TodoStatus::InProgress => {
                let active = active.as_ref().map(|active| format!("  {DIM}{}{DIM:#}", one_line(active)));
                writeln!(out, "[>] {BOLD}{task}{BOLD:#}{}", active.unwrap_or_default())?;
            }
            TodoStatus::Completed => writeln!(out, "{GOOD}[x]{GOOD:#} {DIM}{task}{DIM:#}")?,
        }
    }
    Ok(ExitCode::SUCCESS)
}
