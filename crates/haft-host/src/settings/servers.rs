//! The settings of MCP servers, and `.mcp.json`, which other programs use as well.

use std::collections::BTreeMap;
use std::path::Path;

use haft_mcp::client::{Server, ServerConfig, ServerTransport, SharedServer, parse_mcp_json};
use haft_sandbox::process;
use schemars::JsonSchema;
use serde::Deserialize;

use super::Result;
use crate::error::{Explain as _, HostError, HostErrorKind};

/// The file with a project's MCP servers, shared with other programs.
pub(super) const MCP_JSON: &str = ".mcp.json";

/// Other servers whose tools are used.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Mcp {
    /// Servers of the Model Context Protocol, by name; so are those of `.mcp.json` in the workspace. Of two with the same
    /// name the later counts. `${NAME}` in what is written is a variable of the environment, `${NAME:-text}` the text
    /// where there is none. Trusted projects only.
    pub servers: BTreeMap<String, ServerConfig>,
    /// Names of servers that only a project asks for and that may use the network; they run in the sandbox, without it unless
    /// `sandbox.network` is set. Only in your own settings.
    pub network: Vec<String>,
    /// Names of servers that only a project asks for and that run outside of the sandbox. Only in your own settings.
    pub free: Vec<String>,
}

/// An MCP server of the settings, with its origin.
#[derive(Clone, Debug)]
pub struct ConfiguredServer {
    /// The server's name.
    pub name: String,
    /// Its settings, with variables not expanded.
    pub config: ServerConfig,
    /// The file that configures it.
    pub origin: String,
    /// Whether that is a file of the project.
    pub is_of_project: bool,
    /// The error in its settings, if they are invalid.
    error: Option<String>,
}

impl ConfiguredServer {
    /// The server with variables expanded. If its settings are invalid, the server reports the error when it is used.
    pub fn server(&self) -> Server {
        let expanded = match &self.error {
            Some(why) => Err(why.clone()),
            None => {
                let variable = |name: &str| std::env::var(name).ok();
                self.config.expand(&self.name, &variable).map_err(|bad| bad.why)
            }
        };
        let expanded = expanded.and_then(|server| match &server.transport {
            ServerTransport::Command { program, .. } if process::is_this_program(program) => Err(
                "it is haft itself, which would start itself without end; other programs can use this entry"
                    .to_owned(),
            ),
            _ => Ok(server),
        });
        expanded.unwrap_or_else(|why| {
            Server::new(self.name.clone(), ServerTransport::Unusable(format!("{why} ({})", self.origin)))
        })
    }

    /// Its command line or URL for display. Variables are not expanded, because their values may be secret.
    pub fn display_target(&self) -> String {
        match (&self.config.command, &self.config.url) {
            _ if let Some(why) = &self.error => format!("nothing, as it is written wrong: {why}"),
            (Some(command), _) => {
                let words = std::iter::once(command).chain(&self.config.args);
                words.map(String::as_str).collect::<Vec<_>>().join(" ")
            }
            (None, url) => url.clone().unwrap_or_default(),
        }
    }
}

impl Mcp {
    /// Validates what the types cannot express.
    pub(super) fn check(&self) -> Result<()> {
        self.servers.iter().try_for_each(|(name, server)| {
            server.check(name).explain(HostErrorKind::Settings, || "`mcp.servers`".to_owned())
        })
    }

    /// Adds the servers, with their origin; they replace servers of the same name.
    pub(super) fn add_to(&self, servers: &mut Vec<ConfiguredServer>, from: &str, is_of_project: bool) {
        let found = self.servers.iter().map(|(name, config)| ConfiguredServer {
            name: name.clone(),
            config: config.clone(),
            origin: from.to_owned(),
            is_of_project,
            error: None,
        });
        add(found, servers);
    }
}

/// Adds servers; they replace servers of the same name.
pub(super) fn add(found: impl Iterator<Item = ConfiguredServer>, servers: &mut Vec<ConfiguredServer>) {
    for found in found {
        servers.retain(|other| other.name != found.name);
        servers.push(found);
    }
}

/// Parses a project's `.mcp.json`.
pub(super) fn read_mcp_json(path: &Path, bytes: Result<Option<Vec<u8>>>) -> Result<Vec<ConfiguredServer>> {
    let read = || -> Result<Vec<ConfiguredServer>> {
        let Some(bytes) = bytes? else { return Ok(Vec::new()) };
        let text = String::from_utf8(bytes).map_err(|_| HostError::settings("it is not UTF-8"))?;
        let found = parse_mcp_json(&text).kind(HostErrorKind::Settings)?.into_iter().map(
            |SharedServer { name, config }| {
                let (config, error) = match config {
                    Ok(config) => (config, None),
                    Err(bad) => (ServerConfig::default(), Some(bad.why)),
                };
                ConfiguredServer { name, config, origin: MCP_JSON.to_owned(), is_of_project: true, error }
            },
        );
        Ok(found.collect())
    };
    read().explain(HostErrorKind::Settings, || format!("`{}`", path.display()))
}
