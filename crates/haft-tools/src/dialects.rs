//! The one list of dialects. A dialect is a module here and a folder of tools beside it.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::sync::Arc;

use haft::{Dialect, DynTool, Fault, Reply, Tool, Typed, suggest};
use parking_lot::Mutex;
use serde_json::Value;

mod ally;
mod cdd;
mod checks;
mod claude;
mod commands;
mod projects;
mod searches;
mod workspace;

#[cfg(test)]
mod tests;

pub use ally::Ally;
pub use cdd::Cdd;
pub use claude::Claude;
pub use workspace::Workspace;

/// Every dialect, the default one first.
pub fn all() -> [Arc<dyn Dialect>; 4] {
    [Arc::new(Claude), Arc::new(Ally), Arc::new(Cdd), Arc::new(Workspace)]
}

/// The dialect of a name.
pub fn by_name(name: &str) -> Result<Arc<dyn Dialect>, Fault> {
    all().into_iter().find(|dialect| dialect.name() == name).ok_or_else(|| {
        let names = all().map(|dialect| dialect.name());
        Fault::invalid(format!("there is no dialect `{name}`"))
            .hint(format!("there are {}", suggest::or_list(&names)))
    })
}

/// A tool of any dialect, by its name in it: `ally/ls`.
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

/// A tool. All sessions have the same one, so its schemas are made once.
fn tool<T: Tool>() -> Arc<dyn DynTool> {
    static TOOLS: Mutex<BTreeMap<TypeId, Arc<dyn DynTool>>> = Mutex::new(BTreeMap::new());
    let mut tools = TOOLS.lock();
    tools.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(Typed::<T>::new())).clone()
}

/// A reply that is an object, with what else there is to know.
fn noted(mut reply: Reply, notes: Vec<String>) -> Reply {
    if !notes.is_empty() {
        note_in_object(&mut reply, &notes);
    }
    reply
}

/// Notes as a field of a reply that is an object.
fn note_in_object(reply: &mut Reply, notes: &[String]) {
    if let Some(Value::Object(object)) = &mut reply.structured {
        let noted = object.entry("notes").or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(noted) = noted {
            noted.extend(notes.iter().map(|note| Value::String(note.clone())));
        }
    }
}
