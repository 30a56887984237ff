//! What several dialects write the same way, and what text in files is: encodings, edits, differences.

mod charset;
#[allow(dead_code)]
mod diff;
#[allow(dead_code)]
mod draft;
#[allow(dead_code)]
mod edit;
#[allow(dead_code)]
mod editorconfig;
#[allow(dead_code)]
mod encoding;
#[allow(dead_code)]
mod find;
#[allow(dead_code)]
mod fit;
#[allow(dead_code)]
mod gutter;
mod lines;
#[allow(dead_code)]
mod lines_edit;
#[allow(dead_code)]
mod mismatch;
#[allow(dead_code)]
mod nearest;
#[allow(dead_code)]
pub(crate) mod notebook;
#[allow(dead_code)]
mod patch;
#[allow(dead_code)]
mod reindent;
#[allow(dead_code)]
mod rows;
#[allow(dead_code)]
mod splice;
#[allow(dead_code)]
mod style;
mod times;

pub(crate) use charset::{Charset, Guess, guess};
pub(crate) use encoding::Source;
pub(crate) use lines::{Numbered, count_of, number};
pub(crate) use times::{iso, seconds};
