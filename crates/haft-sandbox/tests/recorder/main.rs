//! Commands whose changes are recorded, with the real kernel: what they changed is listed, and taking it back gives the
//! workspace as it was.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stderr, missing_docs)]

mod cases;
mod common;
mod fuzz;
mod git;
mod listener;
mod operations;
