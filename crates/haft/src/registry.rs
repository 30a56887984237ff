//! The tools of a session, in a stable order, changeable while it runs. Knows tools only by their spec.

use std::sync::Arc;

use indexmap::IndexMap;
use parking_lot::RwLock;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::decode::Decoder;
use crate::{Context, DynTool, Fault, FaultKind, Sensitivity, Spec, suggest};

/// Says why there is no tool of a name, if it knows.
type Explain = Arc<dyn Fn(&str) -> Option<Fault> + Send + Sync>;

/// The tools of a session.
#[derive(Default)]
pub struct Registry {
    tools: RwLock<IndexMap<Arc<str>, Arc<Entry>>>,
    explains: RwLock<Vec<Explain>>,
    changed: watch::Sender<()>,
}

/// A tool and what checks its inputs.
pub(crate) struct Entry {
    pub(crate) tool: Arc<dyn DynTool>,
    pub(crate) decoder: Decoder,
}

/// A form in which tools are defined for an API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// OpenAI's Chat Completions.
    OpenAi,
    /// OpenAI's Responses.
    OpenAiResponses,
    /// Anthropic's Messages.
    Anthropic,
    /// The Model Context Protocol.
    Mcp,
    /// Everything haft knows of a tool.
    Haft,
}

impl Registry {
    /// Adds a tool at the end. A name that is taken is refused: use [`replace`](Registry::replace).
    pub fn register(&self, tool: Arc<dyn DynTool>) -> Result<(), Fault> {
        let name = tool.spec().name.clone();
        let mut tools = self.tools.write();
        if tools.contains_key(&name) {
            return Err(Fault::invalid(format!("there is a tool `{name}` already"))
                .hint("replace it, or use another name"));
        }
        tools.insert(name, Arc::new(Entry { tool, decoder: Decoder::default() }));
        drop(tools);
        self.changed.send_replace(());
        Ok(())
    }

    /// Puts a tool in the place of the one of the same name, which is returned, or at the end.
    pub fn replace(&self, tool: Arc<dyn DynTool>) -> Option<Arc<dyn DynTool>> {
        let name = tool.spec().name.clone();
        let entry = Arc::new(Entry { tool, decoder: Decoder::default() });
        let mut tools = self.tools.write();
        let old = tools.insert(name, entry).map(|old| old.tool.clone());
        drop(tools);
        self.changed.send_replace(());
        old
    }

    /// Takes a tool out. Calls that it is running go on.
    pub fn remove(&self, name: &str) -> Option<Arc<dyn DynTool>> {
        let mut tools = self.tools.write();
        let old = tools.shift_remove(name).map(|old| old.tool.clone());
        drop(tools);
        if old.is_some() {
            self.changed.send_replace(());
        }
        old
    }

    /// Adds somebody who knows why there is no tool of a name, such as where tools come from that cannot be reached.
    pub fn explain(&self, explain: impl Fn(&str) -> Option<Fault> + Send + Sync + 'static) {
        self.explains.write().push(Arc::new(explain));
    }

    /// Tells from now on when tools are added, replaced or taken out.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// The tool of a name.
    pub fn get(&self, name: &str) -> Option<Arc<dyn DynTool>> {
        self.entry(name).map(|entry| entry.tool.clone())
    }

    pub(crate) fn entry(&self, name: &str) -> Option<Arc<Entry>> {
        self.tools.read().get(name).cloned()
    }

    /// The tool of a name, or a fault that names the nearest ones.
    pub(crate) fn find(&self, name: &str, cx: &Context) -> Result<Arc<Entry>, Fault> {
        let entry = self.entry(name).ok_or_else(|| self.unknown(name))?;
        if entry.tool.enabled(cx) {
            Ok(entry)
        } else {
            Err(Fault::new(FaultKind::Disabled, format!("the tool `{name}` cannot be used here")))
        }
    }

    fn unknown(&self, name: &str) -> Fault {
        let explains = self.explains.read().clone();
        if let Some(fault) = explains.iter().find_map(|explain| explain(name)) {
            return fault;
        }
        let names = self.names();
        let known = || names.iter().map(|name| &**name);
        let near = suggest::nearest(name, known(), 3);
        let shown: String = name.chars().take(100).collect();
        let fault = Fault::new(FaultKind::UnknownTool, format!("there is no tool `{shown}`"));
        match near.as_slice() {
            [] => fault.hint(format!("the tools are `{}`", known().collect::<Vec<_>>().join("`, `"))),
            near => fault.hint(format!("did you mean {}?", suggest::or_list(near))),
        }
    }

    /// All tools, in order.
    pub fn all(&self) -> Vec<Arc<dyn DynTool>> {
        let tools = self.tools.read();
        tools.values().map(|entry| entry.tool.clone()).collect()
    }

    /// All names, in order.
    pub fn names(&self) -> Vec<Arc<str>> {
        self.tools.read().keys().cloned().collect()
    }

    /// The tools of these names, in the registry's order. Names without a tool are passed over.
    pub fn filter(&self, names: &[&str]) -> Vec<Arc<dyn DynTool>> {
        self.matching(|spec| names.contains(&&*spec.name))
    }

    /// The tools of a category.
    pub fn in_category(&self, category: &str) -> Vec<Arc<dyn DynTool>> {
        self.matching(|spec| spec.category == category)
    }

    /// The tools that never change anything.
    pub fn read_only(&self) -> Vec<Arc<dyn DynTool>> {
        self.matching(|spec| spec.read_only)
    }

    fn matching(&self, wanted: impl Fn(&Spec) -> bool) -> Vec<Arc<dyn DynTool>> {
        self.all().into_iter().filter(|tool| wanted(tool.spec())).collect()
    }

    /// What there is to know of a tool.
    pub fn spec(&self, name: &str) -> Option<Spec> {
        self.entry(name).map(|entry| entry.tool.spec().clone())
    }

    /// The tools that can be used, as a list for a system prompt.
    pub fn prompt(&self, cx: &Context) -> String {
        let usable = self.all().into_iter().filter(|tool| tool.enabled(cx));
        usable.map(|tool| format!("- {}: {}\n", tool.spec().name, tool.spec().summary())).collect()
    }

    /// The tools that can be used, defined for an API.
    pub fn definitions(&self, format: Format, cx: &Context) -> Vec<Value> {
        let usable = self.all().into_iter().filter(|tool| tool.enabled(cx));
        usable.map(|tool| format.define(tool.spec(), &tool.describe(cx))).collect()
    }
}

impl Format {
    /// A tool, defined in this form.
    pub fn define(self, spec: &Spec, description: &str) -> Value {
        let (name, schema) = (&*spec.name, spec.input_schema());
        match self {
            Format::OpenAi => {
                json!({"type": "function", "function": {"name": name, "description": description, "parameters": schema}})
            }
            Format::OpenAiResponses => json!({
                "type": "function", "name": name, "description": description, "parameters": schema, "strict": false,
            }),
            Format::Anthropic => json!({"name": name, "description": description, "input_schema": schema}),
            Format::Mcp => {
                // What is not read-only may reach anywhere, but for what works on files alone.
                let is_open = spec.category == "web"
                    || !(spec.read_only || matches!(&*spec.category, "file" | "search"));
                let mut tool = json!({
                    "name": name,
                    "title": spec.title(),
                    "description": description,
                    "inputSchema": schema,
                    "annotations": {
                        "readOnlyHint": spec.read_only,
                        "destructiveHint": !spec.read_only && spec.sensitivity != Sensitivity::Safe,
                        "idempotentHint": spec.read_only,
                        "openWorldHint": is_open,
                    },
                });
                // The protocol knows objects alone.
                if let Some(output) = spec.output_schema().filter(|schema| schema["type"] == "object") {
                    tool["outputSchema"] = output.clone();
                }
                tool
            }
            Format::Haft => json!({
                "name": name,
                "description": description,
                "category": spec.category,
                "read_only": spec.read_only,
                "sensitivity": spec.sensitivity,
                "max_result": spec.max_result,
                "cut": spec.cut,
                "timeout_ms": spec.timeout.map(|timeout| timeout.as_millis() as u64),
                "shows_progress": spec.shows_progress,
                "input_schema": schema,
                "output_schema": spec.output_schema(),
            }),
        }
    }
}
