//! What several dialects write the same way, and what text in files is: encodings, edits, differences.

#[allow(dead_code)]
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
mod manner;
#[allow(dead_code)]
mod mismatch;
#[allow(dead_code)]
mod nearest;
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

pub use diff::Diff;
pub use edit::{Occurrences, Replace};
pub use lines_edit::{LineContent, LineEdit};
pub use manner::{Leniency, Manner, Placeholders};

pub(crate) use diff::{DiffLimits, Side, short, unified};
pub(crate) use draft::Planned;
pub(crate) use edit::plan as plan_edits;
pub(crate) use editorconfig::ConfigFile;
pub(crate) use encoding::{Source, Unwritable};
pub(crate) use gutter::placeholder;
pub(crate) use lines::{Fidelity, Numbered, count_of, decode, number};
pub(crate) use lines_edit::plan_lines;
pub(crate) use mismatch::{Mismatch, Problem};
pub(crate) use patch::{Outcome, PatchProblem, Patched, paths as patch_paths, plan_patch};
pub(crate) use splice::Splices;
pub(crate) use style::{NewStyle, style_for_new};
pub(crate) use times::{iso, seconds};
