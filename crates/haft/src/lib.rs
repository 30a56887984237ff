//! One engine for a model's tool calls.

mod claim;

pub use claim::{Access, Claims, Resource};
pub use haft_sandbox::AbsPath;
