//! What committing a trial costs: listing what a command changed, exchanging it into the workspace and recording it, beside
//! the two flushes that make it durable.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::print_stdout, missing_docs, dead_code)]

#[cfg(target_os = "linux")]
#[path = "trial/linux.rs"]
mod linux;

fn main() {
    #[cfg(target_os = "linux")]
    linux::main();
}
