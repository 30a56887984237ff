//! `haft completions`: prints a completion script for a shell.

use std::io::Write;
use std::process::ExitCode;

use crate::args;

pub(super) fn run(shell: clap_complete::Shell) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut args::command(), "haft", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}
