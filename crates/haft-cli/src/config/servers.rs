//! The settings about other servers whose tools are used, and the file in which projects have them for every program.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use haft_mcp::client::{Access, Server, ServerConfig, servers_in};
use schemars::JsonSchema;
use serde::Deserialize;

/// Where a project has its servers for every program that can use them.
pub(super) const MCP_JSON: &str = ".mcp.json";

/// Other servers whose tools are used.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Mcp {
    /// Servers of the Model Context Protocol, by name; so are those of `.mcp.json` in the workspace. Of two with the same
    /// name the later counts. `${NAME}` in what is written is a variable of the environment, `${NAME:-text}` the text
    /// where there is none. Trusted projects only.
    pub(crate) servers: BTreeMap<String, ServerConfig>,
}

/// A server, and where it was found.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) name: String,
    pub(crate) config: ServerConfig,
    pub(crate) from: String,
}

impl Found {
    /// The server, with its variables expanded. One that cannot be is told when somebody wants it.
    pub(crate) fn server(&self) -> Server {
        let expanded = self.config.expand(&self.name, &|name| std::env::var(name).ok());
        expanded.unwrap_or_else(|bad| {
            Server::new(self.name.clone(), Access::Unusable(format!("{} ({})", bad.why, self.from)))
        })
    }

    /// How it is reached, as it is written: nothing is expanded, because what comes out may be secret.
    pub(crate) fn written(&self) -> String {
        match (&self.config.command, &self.config.url) {
            (Some(command), _) => {
                let words = std::iter::once(command).chain(&self.config.args);
                words.map(String::as_str).collect::<Vec<_>>().join(" ")
            }
            (None, url) => url.clone().unwrap_or_default(),
        }
    }
}

impl Mcp {
    /// What the types cannot say.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        self.servers.iter().try_for_each(|(name, server)| server.check(name).context("`mcp.servers`"))
    }

    /// Adds the servers, with where they were found, in place of others of the same name.
    pub(super) fn write_down(&self, servers: &mut Vec<Found>, from: &str) {
        for (name, config) in &self.servers {
            servers.retain(|found| found.name != *name);
            servers.push(Found { name: name.clone(), config: config.clone(), from: from.to_owned() });
        }
    }
}

/// The servers of a project's `.mcp.json`.
pub(super) fn read_mcp_json(path: &Path, bytes: anyhow::Result<Option<Vec<u8>>>) -> anyhow::Result<Mcp> {
    let read = || {
        let Some(bytes) = bytes? else { return Ok(Mcp::default()) };
        let text = String::from_utf8(bytes).context("it is not UTF-8")?;
        let servers = Mcp { servers: servers_in(&text)?.into_iter().collect() };
        servers.servers.iter().try_for_each(|(name, server)| server.check(name))?;
        anyhow::Ok(servers)
    };
    read().with_context(|| format!("`{}`", path.display()))
}
