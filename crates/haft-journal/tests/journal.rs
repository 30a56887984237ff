//! The journal as a library user meets it: in real temporary folders, with processes that really die.
#![allow(clippy::disallowed_methods)] // tests look at the files that the journal is said to have written
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::print_stderr)]

#[path = "journal/basics.rs"]
mod basics;
#[cfg(target_os = "linux")]
#[path = "journal/commands.rs"]
mod commands;
#[path = "journal/common.rs"]
mod common;
#[path = "journal/confine.rs"]
mod confine;
#[path = "journal/crash.rs"]
mod crash;
#[path = "journal/damage.rs"]
mod damage;
#[path = "journal/large.rs"]
mod large;
#[path = "journal/model.rs"]
mod model;
#[cfg(target_os = "linux")]
#[path = "../../haft-sandbox/tests/recorder/operations.rs"]
mod operations;
#[cfg(target_os = "linux")]
#[allow(dead_code)]
#[path = "../../haft-sandbox/tests/recorder/common.rs"]
mod recorded;
#[cfg(target_os = "linux")]
#[path = "journal/trials.rs"]
mod trials;
