//! `haft trust`: shows the settings of a project, and trusts them if the user confirms.

use std::io::{BufRead as _, IsTerminal as _, Write};
use std::process::ExitCode;

use crate::args::Common;
use crate::host;
use crate::style::{BOLD, DIM, one_line, sanitize};
use haft_host::Environment;
use haft_host::settings::Trust;
use serde_json::json;

pub(super) fn run(common: &Common, yes: bool) -> anyhow::Result<ExitCode> {
    let environment = host::environment(common)?;
    if common.json {
        return as_json(&environment, yes);
    }
    let mut out = anstream::stdout().lock();
    let files = environment.loaded.of_project();
    let scripts = environment.changed_scripts()?;
    if files.is_empty() && scripts.is_empty() {
        writeln!(
            out,
            "`{}` has no settings of its own: there is nothing to trust",
            environment.root.display()
        )?;
        return Ok(ExitCode::SUCCESS);
    }
    let has_settings = !files.is_empty();
    for (path, text) in files {
        writeln!(out, "{BOLD}{}{BOLD:#}", path.display())?;
        for line in sanitize(text).lines() {
            writeln!(out, "  {line}")?;
        }
    }
    let loaded = &environment.loaded;
    if let Some(why) = &loaded.mcp_json_error {
        anyhow::bail!("nothing can be trusted that cannot be read: {why}");
    }
    for found in loaded
        .untrusted_servers
        .iter()
        .chain(loaded.servers.iter().filter(|found| found.origin.starts_with('.')))
    {
        let how = if found.config.url.is_some() { "would connect to" } else { "would start" };
        writeln!(
            out,
            "{BOLD}{}{BOLD:#} {how}: {}",
            one_line(&found.name),
            one_line(&found.display_target())
        )?;
    }
    for script in &scripts {
        writeln!(
            out,
            "{BOLD}{}{BOLD:#} is run by a hook, and has changed since you trusted it",
            one_line(script)
        )?;
    }
    let is_followed = environment.loaded.trust == Trust::Full;
    if is_followed && scripts.is_empty() {
        writeln!(out, "{DIM}these settings are followed already{DIM:#}")?;
        return Ok(ExitCode::SUCCESS);
    }
    if !environment.loaded.ignored.is_empty() {
        writeln!(out, "not followed so far: {}", sanitize(&environment.loaded.ignored.join(", ")))?;
    }
    if !yes && !confirmed(&mut out)? {
        return Ok(ExitCode::FAILURE);
    }
    if is_followed || !has_settings {
        environment.trust_scripts()?;
        writeln!(out, "the scripts are trusted as they are now")?;
        return Ok(ExitCode::SUCCESS);
    }
    environment.trust()?;
    writeln!(out, "`{}` is trusted with these settings", environment.root.display())?;
    Ok(ExitCode::SUCCESS)
}

/// The settings of the project and whether they are trusted, after trusting them if that was said. Nobody is asked; the
/// exit code is 1 if something is not followed.
fn as_json(environment: &Environment, yes: bool) -> anyhow::Result<ExitCode> {
    let loaded = &environment.loaded;
    let files = loaded.of_project();
    let mut is_followed = files.is_empty() || loaded.trust == Trust::Full;
    if yes && !is_followed {
        if let Some(why) = &loaded.mcp_json_error {
            anyhow::bail!("nothing can be trusted that cannot be read: {why}");
        }
        environment.trust()?;
        is_followed = true;
    }
    let mut scripts = environment.changed_scripts()?;
    if yes && !scripts.is_empty() {
        environment.trust_scripts()?;
        scripts.clear();
    }
    let servers = loaded
        .untrusted_servers
        .iter()
        .map(|found| json!({"name": found.name, "origin": found.origin, "target": found.display_target()}));
    let output = json!({
        "workspace": environment.root,
        "is_trusted": is_followed,
        "has_changed": loaded.trust == Trust::Changed && !yes,
        "files": files.iter().map(|(path, text)| json!({"path": path, "text": text})).collect::<Vec<_>>(),
        "changed_scripts": &scripts,
        "ignored": if is_followed { &[] } else { loaded.ignored.as_slice() },
        "untrusted_servers": if is_followed { Vec::new() } else { servers.collect::<Vec<_>>() },
    });
    writeln!(std::io::stdout(), "{}", serde_json::to_string_pretty(&output)?)?;
    Ok(if is_followed && scripts.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn confirmed(out: &mut impl Write) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        anyhow::bail!("nobody is there to agree: say `--yes` if you have read the settings above");
    }
    write!(out, "follow them in full? [y/N] ")?;
    out.flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
