//! The registry: the tools of a session by name, in a stable order, changeable while the session runs. Knows tools only
//! by their [`Spec`].

use std::sync::Arc;

use indexmap::IndexMap;
use parking_lot::RwLock;
use serde_json::Value;
use tokio::sync::watch;

use crate::decode::Decoder;
use crate::{Category, Context, DynTool, Fault, FaultKind, Format, Spec, suggest};

/// Explains why no tool of a name exists, if it knows.
type Explain = Arc<dyn Fn(&str) -> Option<Fault> + Send + Sync>;

/// The tools of a session, by name and in a stable order.
#[derive(Default)]
pub struct Registry {
    tools: RwLock<IndexMap<Arc<str>, Arc<Entry>>>,
    explains: RwLock<Vec<Explain>>,
    changed: watch::Sender<()>,
}

/// A tool and the decoder of its inputs.
pub(crate) struct Entry {
    pub(crate) tool: Arc<dyn DynTool>,
    pub(crate) decoder: Decoder,
}

impl Registry {
    /// Adds a tool at the end. Fails if the name is taken: see [`replace`](Registry::replace).
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

    /// Replaces the tool of the same name, and returns it; or adds the tool at the end.
    pub fn replace(&self, tool: Arc<dyn DynTool>) -> Option<Arc<dyn DynTool>> {
        let name = tool.spec().name.clone();
        let entry = Arc::new(Entry { tool, decoder: Decoder::default() });
        let mut tools = self.tools.write();
        let old = tools.insert(name, entry).map(|old| old.tool.clone());
        drop(tools);
        self.changed.send_replace(());
        old
    }

    /// Removes a tool. Calls of it that are running go on.
    pub fn remove(&self, name: &str) -> Option<Arc<dyn DynTool>> {
        let mut tools = self.tools.write();
        let old = tools.shift_remove(name).map(|old| old.tool.clone());
        drop(tools);
        if old.is_some() {
            self.changed.send_replace(());
        }
        old
    }

    /// Adds a function that explains why no tool of a name exists, such as a server of tools that cannot be reached. Its
    /// fault replaces the usual one.
    pub fn explain(&self, explain: impl Fn(&str) -> Option<Fault> + Send + Sync + 'static) {
        self.explains.write().push(Arc::new(explain));
    }

    /// Notifies from now on when tools are added, replaced or removed.
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
        match entry.tool.unavailable(cx) {
            None => Ok(entry),
            Some(fault) => Err(fault),
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

    /// The tools of these names, in the registry's order. Unknown names are ignored.
    pub fn filter(&self, names: &[&str]) -> Vec<Arc<dyn DynTool>> {
        self.matching(|spec| names.contains(&&*spec.name))
    }

    /// The tools of a category.
    pub fn in_category(&self, category: Category) -> Vec<Arc<dyn DynTool>> {
        self.matching(|spec| spec.category == category)
    }

    /// The tools that never change anything.
    pub fn read_only(&self) -> Vec<Arc<dyn DynTool>> {
        self.matching(|spec| spec.read_only)
    }

    fn matching(&self, wanted: impl Fn(&Spec) -> bool) -> Vec<Arc<dyn DynTool>> {
        self.all().into_iter().filter(|tool| wanted(tool.spec())).collect()
    }

    /// The specification of a tool.
    pub fn spec(&self, name: &str) -> Option<Spec> {
        self.entry(name).map(|entry| entry.tool.spec().clone())
    }

    /// The tools that can work in a session.
    fn offered<'a>(&self, cx: &'a Context) -> impl Iterator<Item = Arc<dyn DynTool>> + use<'a> {
        let can_ask = cx.session().can_ask_user();
        let works = move |tool: &Arc<dyn DynTool>| {
            (can_ask || !tool.spec().asks_user) && tool.unavailable(cx).is_none()
        };
        self.all().into_iter().filter(works)
    }

    /// The available tools as a list for a system prompt.
    pub fn prompt(&self, cx: &Context) -> String {
        self.offered(cx).map(|tool| format!("- {}: {}\n", tool.spec().name, tool.spec().summary())).collect()
    }

    /// The definitions of the available tools for an API.
    pub fn definitions(&self, format: Format, cx: &Context) -> Vec<Value> {
        self.offered(cx).map(|tool| format.define(tool.spec(), &tool.describe(cx))).collect()
    }
}
