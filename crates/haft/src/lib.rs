#![doc = include_str!("../README.md")]

pub use haft_core::*;
/// How models spell what haft can do: one dialect of tools for each family.
pub use haft_dialects as dialects;
/// Settings, trust, grants and state as the command `haft` has them.
#[cfg(feature = "host")]
pub use haft_host as host;
/// The durable record of changes, from which undo and redo work.
pub use haft_journal as journal;
/// The Model Context Protocol: sessions served to clients, and other servers' tools.
#[cfg(any(feature = "mcp-client", feature = "mcp-server"))]
pub use haft_mcp as mcp;
/// What haft can do, in its own words, for tools of one's own that spell it differently.
pub use haft_ops as ops;
/// Rules about calls: which happen, which are asked about, which never happen.
#[cfg(feature = "commands")]
pub use haft_rules as rules;
/// Files, processes and the sandbox.
pub use haft_sandbox as sandbox;
/// What a shell command would do, as far as its text tells.
#[cfg(feature = "commands")]
pub use haft_shell as shell;
/// Text in files: encodings, edits, differences, syntax checks.
pub use haft_text as text;

/// Sets up the sandbox that commands run in. Call it first in `main`, before any thread is started: the program is started
/// once more to go into the sandbox, and then does not return from here. Without it, tools that run commands are not
/// offered.
///
/// With tokio, write a plain `main` and start the runtime in it; `#[tokio::main]` starts threads first.
pub fn arm() {
    haft_sandbox::cage::arm();
}

/// The tools of every dialect, as those that rules can be about.
#[cfg(feature = "commands")]
pub fn known_tools() -> rules::KnownTools {
    rules::KnownTools::of(dialects::all().iter().flat_map(|dialect| dialect.tools()))
}

/// The project's own README, whose examples are compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
