//! What several dialects write the same way, and what text in files is: encodings, edits, differences.

mod charset;
mod diff;
mod draft;
mod edit;
mod editorconfig;
mod encoding;
mod find;
mod fit;
mod gutter;
mod lines;
mod lines_edit;
mod manner;
mod mismatch;
mod nearest;
pub(crate) mod notebook;
mod patch;
mod reindent;
mod rows;
pub(crate) mod splice;
mod style;
mod times;

pub use diff::Diff;
pub use edit::{Occurrences, Replace};
pub use lines_edit::{LineContent, LineEdit};
pub use manner::{Leniency, Manner, Placeholders};

pub(crate) use charset::{Charset, Guess, guess};
pub(crate) use diff::{DiffLimits, Side, both, common_end, common_start, shown, unified};
pub(crate) use draft::{Draft, Follows, Planned};
pub(crate) use edit::plan as plan_edits;
pub(crate) use editorconfig::ConfigFile;
pub(crate) use encoding::{Source, Unwritable};
pub(crate) use fit::TextSplice;
pub(crate) use gutter::placeholder;
pub(crate) use lines::{Numbered, count_of, number};
pub(crate) use lines_edit::plan_lines;
pub(crate) use mismatch::{Mismatch, Problem};
pub(crate) use patch::{Outcome, PatchProblem, Patched, paths as patch_paths, plan_patch};
pub(crate) use splice::Splices;
pub(crate) use style::{NewStyle, style_for_new};
pub(crate) use times::{iso, seconds};
