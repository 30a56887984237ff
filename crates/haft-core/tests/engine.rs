//! Integration tests of the engine through its public API, with real temporary folders and processes.
#![allow(clippy::disallowed_methods)] // tests look at the files that the engine is said to have written
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod activity;
mod asks;
mod cancel;
mod common;
mod decode;
mod delegates;
mod hooks;
mod limits;
mod missing;
mod pipeline;
mod registry;
mod repeats;
mod turns;
