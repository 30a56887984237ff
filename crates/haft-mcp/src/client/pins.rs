//! Remembers what a server said about a tool when a call of it was last allowed. A server that says something else later
//! could make an allowed tool do another thing, so that the next call needs approval again. Kept across runs.

use std::collections::BTreeMap;
use std::io;

use haft_core::{Hash, Store};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::listing::ListedTool;
use super::server::{Server, ServerTransport};

/// The subfolder with one file per server.
const FOLDER: &str = "tools";

/// Hashes of what a server says about a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ToolPin {
    description: String,
    schema: String,
    hints: String,
}

impl ToolPin {
    pub(super) fn of(tool: &ListedTool) -> Self {
        let ListedTool { description, schema, output, hints, .. } = tool;
        let hash = |text: &str| Hash::of(text.as_bytes()).to_string();
        let output = output.as_ref().map(ToString::to_string).unwrap_or_default();
        Self {
            description: hash(description),
            schema: hash(&format!("{schema}\n{output}")),
            hints: hash(&format!("{hints:?}")),
        }
    }

    /// What differs from an earlier pin, for a person.
    fn differences(&self, before: &Self) -> Vec<&'static str> {
        let parts = [
            (self.description != before.description, "the description"),
            (self.schema != before.schema, "the schema"),
            (self.hints != before.hints, "the hints about its effects"),
        ];
        parts.into_iter().filter_map(|(differs, name)| differs.then_some(name)).collect()
    }
}

/// The pins of one server.
pub(super) struct Pins {
    store: Option<Store>,
    file: String,
    known: Mutex<Option<BTreeMap<String, ToolPin>>>,
}

impl Pins {
    /// The pins of a server. Without a store they last as long as this process.
    pub(super) fn new(store: Option<&Store>, server: &Server) -> Self {
        // Another program under the same name has its own pins.
        let origin = match &server.transport {
            ServerTransport::Command { program, args, .. } => format!("{program}\0{}", args.join("\0")),
            ServerTransport::Http { url, .. } => url.clone(),
            ServerTransport::Unusable(_) => String::new(),
        };
        let file = Hash::of(format!("{}\0{origin}", server.name).as_bytes()).to_string();
        Self { store: store.map(|store| store.folder(FOLDER)), file, known: Mutex::default() }
    }

    /// What has changed since a call of this tool was last allowed; empty if nothing has, or none was. The error says why
    /// that is not known.
    pub(super) fn changed(&self, tool: &str, now: &ToolPin) -> io::Result<Vec<&'static str>> {
        let mut known = self.known.lock();
        if known.is_none() {
            *known = Some(self.load()?);
        }
        let before = known.as_ref().and_then(|known| known.get(tool));
        Ok(before.map(|before| now.differences(before)).unwrap_or_default())
    }

    /// Remembers what the server says now, since a call was allowed.
    pub(super) fn accept(&self, tool: &str, now: &ToolPin) -> io::Result<()> {
        let mut known = self.known.lock();
        if known.as_ref().and_then(|known| known.get(tool)) == Some(now) {
            return Ok(());
        }
        let lock = match &self.store {
            Some(store) => Some(store.lock("tools.lock")?),
            None => None,
        };
        // Another process may have added pins meanwhile.
        let mut pins = match &self.store {
            Some(_) => self.load()?,
            None => known.take().unwrap_or_default(),
        };
        pins.insert(tool.to_owned(), now.clone());
        if let Some(store) = &self.store {
            store.write_fast(&self.file, &serde_json::to_vec(&pins)?)?;
        }
        drop(lock);
        *known = Some(pins);
        Ok(())
    }

    fn load(&self) -> io::Result<BTreeMap<String, ToolPin>> {
        let Some(store) = &self.store else { return Ok(BTreeMap::new()) };
        let Some(bytes) = store.read(&self.file)? else { return Ok(BTreeMap::new()) };
        serde_json::from_slice(&bytes).map_err(|error| {
            let path = store.path(&self.file);
            io::Error::other(format!("`{}` is damaged ({error}); remove it to ask anew", path.display()))
        })
    }
}
