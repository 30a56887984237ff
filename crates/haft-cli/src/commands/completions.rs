//! `haft completions`: prints a completion script for a shell.

use std::io::Write;
use std::process::ExitCode;

use clap::CommandFactory;

use crate::args::Args;

pub(super) fn run(shell: clap_complete::Shell) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "haft", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}
