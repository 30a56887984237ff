//! `cdd`: read, write, edit, glob, grep, bash. Replies are text; so are failures.

use std::sync::Arc;

use haft::{Dialect, DynTool};

use super::tool;

mod read;

pub(super) use read::Read;

/// The dialect.
pub struct Cdd;

impl Dialect for Cdd {
    fn name(&self) -> &'static str {
        "cdd"
    }

    fn summary(&self) -> &'static str {
        "a small set of tools: replies as text, lines as `     1→line`"
    }

    fn tools(&self) -> Vec<Arc<dyn DynTool>> {
        vec![tool::<Read>()]
    }
}
