//! The dialect `claude`: Read, Write, Edit, Glob, Grep, Bash and more. Replies and failures are text.

use std::sync::Arc;

use haft_core::dialect::Outside;
use haft_core::{Context, Dialect, DynTool, Reply};

use super::{checks, tool};
use haft_ops::{Changed, Fate};
use haft_text::{clip_for_reply, count_of};

mod ask_user_question;
#[cfg(feature = "commands")]
mod bash;
mod edit;
mod enter_plan_mode;
mod exit_plan_mode;
mod glob;
mod grep;
#[cfg(feature = "commands")]
mod kill_shell;
mod notebook_edit;
mod read;
#[cfg(feature = "commands")]
mod task_output;
mod todo_write;
mod undo;
#[cfg(feature = "web")]
mod web_fetch;
#[cfg(feature = "web")]
mod web_search;
mod write;

pub(super) use ask_user_question::AskUserQuestion;
#[cfg(feature = "commands")]
pub(super) use bash::Bash;
pub(super) use edit::Edit;
pub(super) use enter_plan_mode::EnterPlanMode;
pub(super) use exit_plan_mode::ExitPlanMode;
pub(super) use glob::Glob;
pub(super) use grep::Grep;
#[cfg(feature = "commands")]
pub(super) use kill_shell::KillShell;
pub(super) use notebook_edit::NotebookEdit;
pub(super) use read::Read;
#[cfg(feature = "commands")]
pub(super) use task_output::TaskOutput;
pub(super) use todo_write::TodoWrite;
pub(super) use undo::Undo;
#[cfg(feature = "web")]
pub(super) use web_fetch::WebFetch;
#[cfg(feature = "web")]
pub(super) use web_search::WebSearch;
pub(super) use write::Write;

/// The dialect `claude`.
pub struct Claude;

impl Dialect for Claude {
    fn name(&self) -> &'static str {
        "claude"
    }

    fn summary(&self) -> &'static str {
        "Read, Write, Edit and their kin: replies as text or content blocks"
    }

    fn tools(&self) -> Vec<Arc<dyn DynTool>> {
        vec![
            tool::<Read>(),
            tool::<Write>(),
            tool::<Edit>(),
            tool::<NotebookEdit>(),
            tool::<Glob>(),
            tool::<Grep>(),
            #[cfg(feature = "commands")]
            tool::<Bash>(),
            #[cfg(feature = "commands")]
            tool::<TaskOutput>(),
            #[cfg(feature = "commands")]
            tool::<KillShell>(),
            #[cfg(feature = "web")]
            tool::<WebFetch>(),
            #[cfg(feature = "web")]
            tool::<WebSearch>(),
            tool::<Undo>(),
            tool::<TodoWrite>(),
            tool::<AskUserQuestion>(),
            tool::<EnterPlanMode>(),
            tool::<ExitPlanMode>(),
        ]
    }

    fn outside(&self) -> Outside {
        Outside::Asked
    }
}

/// The reply to a change.
fn changed(named: &str, changed: Changed, cx: &Context) -> Reply {
    let structured = checks::structured(&changed, cx);
    let Changed { fate, number, size, replaced, short, notes, checked, .. } = changed;
    let mut text = match (fate, number) {
        (Fate::Created, Some(number)) => {
            format!("created `{named}` ({}, change {number})", count_of(size, "byte"))
        }
        (Fate::Changed, Some(number)) => {
            let lines = match (short.added, short.removed) {
                (0, 0) => "the same source".to_owned(),
                (0, removed) => format!("{} gone", count_of(removed as u64, "line")),
                (added, 0) => format!("{} new", count_of(added as u64, "line")),
                (added, removed) => format!("{} for {removed}", count_of(added as u64, "line")),
            };
            let places = if replaced > 1 { format!("{replaced} places, ") } else { String::new() };
            format!("changed `{named}` ({places}{lines}, change {number})")
        }
        _ => format!("`{named}` has this content already; nothing was written"),
    };
    if fate == Fate::Changed && !short.text.is_empty() {
        text.push_str(":\n");
        text.push_str(clip_for_reply(&short.text).trim_end());
    }
    let mut reply = checks::with_errors(Reply::text(text).structured(structured), checked.as_ref());
    for note in notes {
        reply = reply.internal(format!("note: {note}"));
    }
    reply
}
