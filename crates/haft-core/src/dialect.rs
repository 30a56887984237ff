//! Dialects: a dialect is a set of tools that a family of models knows, with its own form for failures and notes. The
//! dialects themselves live in `haft-dialects`; [`Plain`] is the default, without tools.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::{DynTool, Fault, FaultKind, Reply};

/// A set of tools that a family of models knows, with its own form for failures and notes.
///
/// ```
/// use std::sync::Arc;
///
/// use haft_core::dialect::Failed;
/// use haft_core::{Dialect, DynTool, Engine, Fault, Reply, Workspace, function};
/// use serde_json::Value;
///
/// /// One tool, and failures in capital letters.
/// struct Loud;
///
/// impl Dialect for Loud {
///     fn name(&self) -> &'static str {
///         "loud"
///     }
///
///     fn summary(&self) -> &'static str {
///         "one tool, and failures in capital letters"
///     }
///
///     fn tools(&self) -> Vec<Arc<dyn DynTool>> {
///         vec![Arc::new(function("PING", "Answers", async |_input: Value, _cx| "PONG").read_only())]
///     }
///
///     fn present(&self, _failed: &Failed<'_>, fault: &Fault) -> Reply {
///         Reply::error(fault.to_string().to_uppercase())
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let workspace = Workspace::open(".".as_ref())?;
/// let session = Engine::default().session(workspace).dialect(Arc::new(Loud)).start();
/// assert!(session.tools().get("PING").is_some());
/// # Ok(())
/// # }
/// ```
pub trait Dialect: Send + Sync + 'static {
    /// The name by which settings choose the dialect.
    fn name(&self) -> &'static str;

    /// A one-line description.
    fn summary(&self) -> &'static str;

    /// The tools, in the order in which they are shown.
    fn tools(&self) -> Vec<Arc<dyn DynTool>>;

    /// Turns a failure into a reply in the dialect's form.
    fn present(&self, failed: &Failed<'_>, fault: &Fault) -> Reply {
        let _ = failed;
        text_fault(fault)
    }

    /// Puts the reply of a tool without an output schema, such as one that a program adds, into the dialect's form.
    fn complete(&self, reply: Reply) -> Reply {
        reply
    }

    /// The schema of the objects that `present` makes, if it makes objects. Clients that validate replies accept failures
    /// in this form, too.
    fn failure_schema(&self) -> Option<Value> {
        None
    }

    /// Adds notes for the model, such as repairs of its input.
    fn note(&self, reply: &mut Reply, notes: &[String]) {
        text_notes(reply, notes);
    }

    /// Whether the engine refuses a call that repeats an earlier one of the same turn while nothing that it depends on has
    /// changed.
    fn refuses_repeats(&self) -> bool {
        false
    }

    /// Whether calls may use paths outside of the workspace.
    fn outside(&self) -> Outside {
        Outside::Refused
    }
}

/// Whether calls may use paths outside of the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outside {
    /// Such paths are an error.
    Refused,
    /// Such paths need approval.
    Asked,
}

/// A call that failed, for [`Dialect::present`].
#[non_exhaustive]
pub struct Failed<'a> {
    /// The tool's name.
    pub tool: &'a str,
    /// The arguments, as far as they could be parsed.
    pub input: &'a Value,
}

/// The default dialect: no tools of its own, and faults as plain text.
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

/// A reply with the fault as text, and its [parts](fault_parts) as the structured value.
pub fn text_fault(fault: &Fault) -> Reply {
    let mut text = fault.to_string();
    if fault.kind() == FaultKind::Cancelled
        && let Some(output) = fault.details().get("output").and_then(Value::as_str)
    {
        text.push_str(&format!("\nwhat it printed until then:\n{}", output.trim_end()));
    }
    Reply::error(text).structured(json!({ "fault": fault_parts(fault) }))
}

/// A fault as JSON: `kind`, `message`, `hint` and `details`.
pub fn fault_parts(fault: &Fault) -> Value {
    json!({
        "kind": fault.kind().name(),
        "message": fault.message(),
        "hint": fault.hint_text(),
        "details": fault.details(),
    })
}

/// Adds each note as a text block that only the model reads.
pub fn text_notes(reply: &mut Reply, notes: &[String]) {
    for note in notes {
        let noted = std::mem::replace(reply, Reply::text("")).internal(format!("note: {note}"));
        *reply = noted;
    }
}
