//! `haft trust`: shows the settings of a project, and trusts them if the user confirms.

use std::io::{BufRead as _, IsTerminal as _, Write};
use std::process::ExitCode;

use crate::args::Common;
use crate::host;
use crate::style::{BOLD, DIM, one_line, sanitize};
use haft_host::settings::Trust;

pub(super) fn run(common: &Common, yes: bool) -> anyhow::Result<ExitCode> {
    let environment = host::environment(common)?;
    let mut out = anstream::stdout().lock();
    let files = environment.loaded.of_project();
    if files.is_empty() {
        writeln!(
            out,
            "`{}` has no settings of its own: there is nothing to trust",
            environment.root.display()
        )?;
        return Ok(ExitCode::SUCCESS);
    }
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
    if environment.loaded.trust == Trust::Full {
        writeln!(out, "{DIM}these settings are followed already{DIM:#}")?;
        return Ok(ExitCode::SUCCESS);
    }
    if !environment.loaded.ignored.is_empty() {
        writeln!(out, "not followed so far: {}", sanitize(&environment.loaded.ignored.join(", ")))?;
    }
    if !yes && !confirmed(&mut out)? {
        return Ok(ExitCode::FAILURE);
    }
    environment.trust()?;
    writeln!(out, "`{}` is trusted with these settings", environment.root.display())?;
    Ok(ExitCode::SUCCESS)
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
