//! The cost of recording: for each kind of call, with a recorder compared to without, and for a whole command.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stdout, missing_docs)]

#[cfg(target_os = "linux")]
#[allow(dead_code)]
#[path = "../tests/recorder/common.rs"]
mod common;
#[cfg(target_os = "linux")]
#[path = "recorder/linux.rs"]
mod linux;

fn main() {
    #[cfg(target_os = "linux")]
    linux::main();
}
