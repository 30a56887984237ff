//! haft and the Model Context Protocol: sessions served to clients over standard input and output or over HTTP (feature
//! `server`), and the tools of other servers used in a session (feature `client`). One connection is one session. The
//! SDK implements the protocol; the host decides what a session may do.

#[cfg(feature = "client")]
pub mod client;
mod name;
#[cfg(feature = "server")]
mod server;
#[cfg(any(feature = "client", feature = "server"))]
mod wire;

pub use name::{ToolName, belongs_to, qualified_name};
/// The SDK's types for the messages of the protocol: prompts, resources, errors and the rest.
pub use rmcp::{ErrorData, model};
#[cfg(feature = "server")]
pub use server::{
    Caller, ChangeNotifier, Client, Extras, FormAnswer, HttpConfig, HttpServer, OutputSchema,
    STRUCTURED_META_KEY, SessionHost, call_result, refuse_stdio, serve, serve_stdio,
};
