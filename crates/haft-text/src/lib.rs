//! What several dialects write the same way, and what text in files is: encodings, edits, differences.

mod charset;
pub mod check;
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
pub mod notebook;
mod patch;
mod reindent;
mod rows;
pub mod splice;
mod style;
mod times;

pub use diff::Diff;
pub use edit::{Occurrences, Replace};
pub use lines_edit::{LineContent, LineEdit};
pub use manner::{EditOptions, Leniency, Placeholders};

pub use charset::{Charset, Guess, guess};
pub use diff::{DiffLimits, Side, both, common_end, common_start, shown, unified};
pub use draft::{Draft, Follows, Planned};
pub use edit::plan as plan_edits;
pub use editorconfig::ConfigFile;
pub use encoding::{Source, Unwritable};
pub use fit::TextSplice;
pub use gutter::placeholder;
pub use lines::{Numbered, count_of, number};
pub use lines_edit::plan_lines;
pub use mismatch::{Mismatch, Problem};
pub use patch::{Outcome, PatchProblem, Patched, paths as patch_paths, plan_patch};
pub use splice::Splices;
pub use style::{NewStyle, style_for_new};
pub use times::{iso, seconds};
