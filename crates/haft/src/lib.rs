#![doc = include_str!("../README.md")]

pub use haft_core::*;
/// Dialects: sets of tools, one for each family of models.
pub use haft_dialects as dialects;
/// The settings, trust, grants and state of the command `haft`.
#[cfg(feature = "host")]
pub use haft_host as host;
/// The journal: a durable record of changes, for undo and redo.
pub use haft_journal as journal;
/// The Model Context Protocol: sessions served to clients, and other servers' tools.
#[cfg(any(feature = "mcp-client", feature = "mcp-server"))]
pub use haft_mcp as mcp;
/// Operations: what tools can do, for tools of one's own that present it differently.
pub use haft_ops as ops;
/// Rules that allow calls, deny them, or require approval.
#[cfg(feature = "commands")]
pub use haft_rules as rules;
/// Files, processes and the sandbox.
pub use haft_sandbox as sandbox;
/// Static analysis of shell commands.
#[cfg(feature = "commands")]
pub use haft_shell as shell;
/// Text in files: encodings, edits, differences, syntax checks.
pub use haft_text as text;
/// The web: pages and searches.
#[cfg(feature = "web")]
pub use haft_web as web;

/// Sets up the sandbox for commands. Call it first in `main`, before any thread starts: to run a command, haft executes the
/// program again inside of the sandbox, and in that process this function does not return. Without it, tools that run
/// commands are not offered.
///
/// With tokio, write a plain `main` and start the runtime in it; `#[tokio::main]` starts threads first.
pub fn arm() {
    haft_sandbox::sandbox::arm_with(haft_ops::WORKERS);
}

/// The tools of every dialect, whose names rules may use.
#[cfg(feature = "commands")]
pub fn known_tools() -> rules::KnownTools {
    rules::KnownTools::of(dialects::all().iter().flat_map(|dialect| dialect.tools()))
}

/// The project's own README, whose examples are compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
