//! haft and the Model Context Protocol: sessions served to clients over standard input and output or over HTTP, and the
//! tools of other servers used as one's own (`client`). One connection is one session. The protocol itself is the SDK's
//! matter; what a session may do is its host's.

mod approve;
mod caller;
mod calls;
pub mod client;
mod connection;
mod conversation;
mod host;
mod http;
mod lines;
mod name;
mod news;
mod page;
mod relay;
mod resources;
mod respond;
mod result;
mod roots;
mod rounds;
mod sessions;
mod stdio;
mod withdraw;

pub use caller::{Caller, Elicited};
pub use host::{Client, Host, Offers};
pub use http::{Http, HttpServer};
pub use name::{ToolName, is_of, qualified};
pub use news::News;
pub use result::call_result;
/// The words of the protocol: prompts, resources, errors and the rest, as the SDK has them.
pub use rmcp::{ErrorData, model};
pub use stdio::{serve, serve_stdio};
