//! The list of dialects. A dialect is a module, with one file per tool in the folder of its name. No dialect touches a file
//! or a process: a tool lowers its input to an operation of haft-ops or haft-web, and renders the result.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::sync::Arc;

use haft_core::{Dialect, DynTool, Fault, Reply, Tool, Typed, suggest};
use parking_lot::Mutex;
use serde_json::Value;

mod ally;
mod cdd;
mod checks;
mod claude;
#[cfg(feature = "commands")]
mod commands;
#[cfg(feature = "project")]
mod projects;
mod searches;
#[cfg(feature = "web")]
mod web;
mod workspace;

#[cfg(test)]
mod tests;

pub use ally::Ally;
pub use cdd::Cdd;
pub use claude::Claude;
pub use workspace::Workspace;

/// Every dialect, the default one first.
pub fn all() -> Vec<Arc<dyn Dialect>> {
    vec![Arc::new(Claude), Arc::new(Ally), Arc::new(Cdd), Arc::new(Workspace)]
}

/// Finds a dialect by its name.
pub fn by_name(name: &str) -> Result<Arc<dyn Dialect>, Fault> {
    all().into_iter().find(|dialect| dialect.name() == name).ok_or_else(|| {
        let names: Vec<&str> = all().iter().map(|dialect| dialect.name()).collect();
        Fault::invalid(format!("there is no dialect `{name}`"))
            .hint(format!("there are {}", suggest::or_list(&names)))
    })
}

/// Finds a tool by its dialect and name, such as `ally/ls`.
pub fn tool_by_name(name: &str) -> Result<Arc<dyn DynTool>, Fault> {
    let (dialect, tool) = name.split_once('/').ok_or_else(|| {
        Fault::invalid(format!("`{name}` names no tool of a dialect")).hint("write it as `ally/ls`")
    })?;
    let dialect = by_name(dialect)?;
    let tools = dialect.tools();
    tools.iter().find(|found| *found.spec().name == *tool).cloned().ok_or_else(|| {
        let names: Vec<&str> = tools.iter().map(|tool| &*tool.spec().name).collect();
        Fault::invalid(format!("`{}` has no tool `{tool}`", dialect.name()))
            .hint(format!("it has {}", suggest::or_list(&names)))
    })
}

/// The shared instance of a tool. Cached for all sessions, so that its schemas are built once.
fn tool<T: Tool>() -> Arc<dyn DynTool> {
    static TOOLS: Mutex<BTreeMap<TypeId, Arc<dyn DynTool>>> = Mutex::new(BTreeMap::new());
    let mut tools = TOOLS.lock();
    tools.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(Typed::<T>::new())).clone()
}

/// Adds notes to a reply that is an object.
fn with_notes(mut reply: Reply, notes: Vec<String>) -> Reply {
    if !notes.is_empty() {
        note_in_object(&mut reply, &notes);
    }
    reply
}

/// Appends notes to the field `notes` of a reply that is an object.
fn note_in_object(reply: &mut Reply, notes: &[String]) {
    if let Some(Value::Object(object)) = &mut reply.structured {
        let noted = object.entry("notes").or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(noted) = noted {
            noted.extend(notes.iter().map(|note| Value::String(note.clone())));
        }
    }
}
