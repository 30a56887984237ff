//! `claude`: Read, Write, Edit, Glob, Grep, Bash … Replies are text; so are failures.

use std::sync::Arc;

use haft::{Dialect, DynTool};

use super::tool;

mod read;

pub(super) use read::Read;

/// The dialect.
pub struct Claude;

impl Dialect for Claude {
    fn name(&self) -> &'static str {
        "claude"
    }

    fn summary(&self) -> &'static str {
        "Read and its kin: replies as text or content blocks"
    }

    fn tools(&self) -> Vec<Arc<dyn DynTool>> {
        vec![tool::<Read>()]
    }
}
