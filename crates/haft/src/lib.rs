//! One engine for a model's tool calls.

mod claim;
mod schedule;

pub use claim::{Access, Claims, Resource};
pub use haft_sandbox::AbsPath;
pub use schedule::Policy;
