//! The command `haft`: parses the command line, runs a command and returns its exit code: 0 for success, 1 if a tool failed
//! or was denied, 2 for an invalid command line or settings, 130 if interrupted. A batch succeeds if every line was
//! answered; a failed call shows in its reply only.

mod approve;
mod args;
mod commands;
mod host;
mod live;
mod logging;
mod readable;
mod respond;
mod style;
mod table;

use std::io;
use std::process::ExitCode;

fn main() -> ExitCode {
    haft_sandbox::sandbox::arm_with(haft_ops::WORKERS);
    haft_sandbox::process::keep_inherited_files();
    let args = match args::parse() {
        Ok(args) => args,
        // Clap prints help on stdout and errors on stderr, with the right exit codes.
        Err(error) => error.exit(),
    };
    style::use_colors(args.common.color);
    match commands::run(args) {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            style::report(&error);
            ExitCode::from(2)
        }
    }
}

/// Whether the reader of haft's output closed the pipe, as `head` does. That is not a failure.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
