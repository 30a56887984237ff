//! One engine for a model's tool calls.

mod claim;
mod limits;
mod schedule;
mod stats;

pub use claim::{Access, Claims, Resource};
pub use haft_sandbox::AbsPath;
pub use limits::{Cut, CutField, Kept, Lost, Swept, cut_json, cut_text};
pub use schedule::Policy;
pub use stats::{Outcome, Stats, ToolStats};
