//! What the engine can do (`ops`) and how four dialects spell it (`dialects`). Operations know no JSON and
//! no dialect; dialects touch no files. What several dialects write the same way is in `text`.

pub mod check;
pub mod dialects;
pub mod ops;
pub mod rules;
pub mod shell;
mod text;

/// What the project's README shows is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
