//! `haft man`: writes a man page of haft and of each command.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;

use crate::args;

pub(super) fn run(dir: &Path) -> anyhow::Result<ExitCode> {
    let pages = || format!("the pages cannot be written to `{}`; the folder must exist", dir.display());
    clap_mangen::generate_to(args::command(), dir).with_context(pages)?;
    writeln!(std::io::stdout(), "wrote haft.1 and a page of each command to `{}`", dir.display())?;
    Ok(ExitCode::SUCCESS)
}
