//! The haft command. Reads what was typed, does it, and turns the outcome into an exit code: 0 when it
//! worked, 1 when a tool failed or was denied, 2 when the command line or the settings are wrong, 130 when it
//! was told to stop. A batch worked when every line was answered; that a call failed is told in its reply.

mod approve;
mod args;
mod commands;
mod host;
mod respond;
mod style;

use std::io;
use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    haft_sandbox::cage::arm_with(haft_ops::WORKERS);
    let args = match args::Args::try_parse() {
        Ok(args) => args,
        // Clap prints help on stdout and mistakes on stderr, and knows their exit codes.
        Err(error) => error.exit(),
    };
    match commands::run(args) {
        Ok(code) => code,
        Err(error) if is_enough(&error) => ExitCode::SUCCESS,
        Err(error) => {
            style::report(&error);
            ExitCode::from(2)
        }
    }
}

/// Whoever reads what haft prints may stop at any time, as `head` does; that is no failure.
fn is_enough(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
