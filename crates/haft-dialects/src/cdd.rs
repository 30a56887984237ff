//! The dialect `cdd`: read, write, edit, glob, grep, bash. Replies and failures are text.

use std::sync::Arc;

use haft_core::dialect::Outside;
use haft_core::{Context, Dialect, DynTool, Reply};

use super::{checks, tool};
use haft_ops::{Changed, Fate, Filter, Ignored};
use haft_text::count_of;

#[cfg(feature = "commands")]
mod bash;
mod edit;
mod glob;
mod grep;
mod read;
mod write;

#[cfg(feature = "commands")]
pub(super) use bash::Bash;
pub(super) use edit::Edit;
pub(super) use glob::Glob;
pub(super) use grep::Grep;
pub(super) use read::Read;
pub(super) use write::Write;

/// The dialect `cdd`.
pub struct Cdd;

impl Dialect for Cdd {
    fn name(&self) -> &'static str {
        "cdd"
    }

    fn summary(&self) -> &'static str {
        "a small set of tools: replies as text, lines as `     1→line`"
    }

    fn tools(&self) -> Vec<Arc<dyn DynTool>> {
        vec![
            tool::<Read>(),
            tool::<Write>(),
            tool::<Edit>(),
            tool::<Glob>(),
            tool::<Grep>(),
            #[cfg(feature = "commands")]
            tool::<Bash>(),
        ]
    }

    fn outside(&self) -> Outside {
        Outside::Asked
    }
}

/// Which files a search covers: neither hidden ones nor installed dependencies.
fn filter() -> Filter {
    let skipped = ["node_modules", "vendor", "__pycache__"].map(str::to_owned).into();
    Filter { ignored: Ignored::Show, skipped, ..Filter::default() }
}

/// The reply to a change.
fn changed(named: &str, changed: Changed, cx: &Context) -> Reply {
    let structured = checks::structured(&changed, cx);
    let Changed { fate, size, diff, notes, checked, .. } = changed;
    let text = match fate {
        Fate::Created => format!("Created {named} ({})", count_of(size, "byte")),
        _ => format!("Updated {named} (+{} -{} lines)", diff.added, diff.removed),
    };
    let mut reply = checks::with_errors(Reply::text(text).structured(structured), checked.as_ref());
    for note in notes {
        reply = reply.internal(format!("({note})"));
    }
    reply
}
