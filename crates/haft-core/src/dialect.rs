//! What a whole surface of tools has in common: which tools, how a failure is told, where notes go. The
//! dialects themselves live in haft-tools; [`Plain`] is what a session speaks that was given none.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::{DynTool, Fault, Reply};

/// A surface of tools that a model family knows.
pub trait Dialect: Send + Sync + 'static {
    /// Its name.
    fn name(&self) -> &'static str;

    /// What it is, in a line.
    fn summary(&self) -> &'static str;

    /// Its tools, in the order in which they are shown.
    fn tools(&self) -> Vec<Arc<dyn DynTool>>;

    /// A failure in the words of the dialect.
    fn present(&self, failed: &Failed<'_>, fault: &Fault) -> Reply {
        let _ = failed;
        text_fault(fault)
    }

    /// Adds notes for the model, such as what was repaired in its input.
    fn note(&self, reply: &mut Reply, notes: &[String]) {
        text_notes(reply, notes);
    }

    /// Whether a call that was made before in the same turn, and would answer the same, is refused.
    fn refuses_repeats(&self) -> bool {
        false
    }

    /// What becomes of a path that lies outside of the workspace.
    fn outside(&self) -> Outside {
        Outside::Refused
    }
}

/// What becomes of a path that lies outside of the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outside {
    /// It cannot be used.
    Refused,
    /// Somebody is asked.
    Asked,
}

/// The call that failed.
pub struct Failed<'a> {
    /// The tool's name.
    pub tool: &'a str,
    /// The arguments, as far as they could be read.
    pub input: &'a Value,
}

/// No tools of its own, plain text: what a session speaks that was given no dialect.
pub struct Plain;

impl Dialect for Plain {
    fn name(&self) -> &'static str {
        "plain"
    }

    fn summary(&self) -> &'static str {
        "no tools of its own, replies as text"
    }

    fn tools(&self) -> Vec<Arc<dyn DynTool>> {
        Vec::new()
    }
}

/// A fault as text, with the fault's parts for programs.
pub fn text_fault(fault: &Fault) -> Reply {
    Reply::error(fault.to_string()).structured(json!({ "fault": fault_parts(fault) }))
}

/// A fault as a value: `kind`, `message`, `hint` and `details`.
pub fn fault_parts(fault: &Fault) -> Value {
    json!({
        "kind": fault.kind().name(),
        "message": fault.message(),
        "hint": fault.hint_text(),
        "details": fault.details(),
    })
}

/// Notes as text of their own, for the model alone.
pub fn text_notes(reply: &mut Reply, notes: &[String]) {
    for note in notes {
        let noted = std::mem::replace(reply, Reply::text("")).internal(format!("note: {note}"));
        *reply = noted;
    }
}
