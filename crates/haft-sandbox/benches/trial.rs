//! The cost of trying a command: a view beside a command that has none, for workspaces of several sizes.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stdout, missing_docs)]

#[cfg(target_os = "linux")]
#[path = "trial/linux.rs"]
mod linux;

fn main() {
    #[cfg(target_os = "linux")]
    linux::main();
}
