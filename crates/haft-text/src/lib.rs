//! Text in files: encodings, edits, patches, diffs, notebooks and syntax checks; and text formats that several dialects
//! share. Plans changes as byte splices. Reads and writes no files and knows no tools.

mod artifacts;
mod charset;
pub mod check;
mod clusters;
mod diff;
mod draft;
mod edit;
mod editorconfig;
mod encoding;
mod find;
mod line_index;
mod line_match;
mod lines;
mod lines_edit;
mod mismatch;
mod nearest;
pub mod notebook;
mod options;
mod patch;
mod reindent;
pub mod splice;
mod style;
mod times;

pub use diff::Diff;
pub use edit::{Occurrences, Replace};
pub use lines_edit::{LineContent, LineEdit};
pub use options::{EditOptions, Leniency, Placeholders};

pub use artifacts::placeholder;
pub use charset::{Charset, Guess, guess};
pub use diff::{
    DiffLimits, MAX_REPLY_CHARS, MAX_REPLY_LINES, Side, clip_for_reply, common_end, common_start,
    shorten_long_lines, unified, unified_and_short,
};
pub use draft::{Draft, EditPlan, Follows};
pub use edit::plan as plan_edits;
pub use editorconfig::ConfigFile;
pub use encoding::{Source, Unwritable};
pub use line_match::TextSplice;
pub use lines::{Numbered, count_of, number};
pub use lines_edit::plan_lines;
pub use mismatch::{Mismatch, Problem};
pub use patch::{Outcome, PatchProblem, Patched, paths as patch_paths, plan_patch};
pub use splice::Splices;
pub use style::{NewStyle, style_for_new};
pub use times::{iso, seconds};
