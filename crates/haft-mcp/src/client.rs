//! The tools of MCP servers, used in a session: configuration, start and end of servers, and their tools as tools of the
//! session. Servers are untrusted: their names, descriptions and answers are bounded and sanitized, and their calls go
//! through permissions like every other.

mod answer;
mod bounds;
mod budget;
mod config;
mod connect;
mod elicit;
mod handler;
mod link;
mod listing;
mod login;
mod notifications;
mod paths;
mod pins;
mod pipe;
mod resources;
mod server;
mod servers;
mod tool;
mod web;

pub use config::{ConfigError, ServerConfig, SharedServer, Variables, parse_mcp_json};
pub use link::{ServerState, ServerStatus};
pub use listing::ServerInfo;
pub use login::{LoginBrowser, Loopback};
pub use resources::{Prompt, PromptArgument};
pub use server::{Limits, OAuth, Protocol, Server, ServerSandbox, ServerSandboxes, ServerTransport};
pub use servers::{Servers, TestResult};
