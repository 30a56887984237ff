//! haft and the Model Context Protocol: sessions served to clients over standard input and output or over HTTP, and the
//! tools of other servers used as one's own (`client`). One connection is one session. The protocol itself is the SDK's
//! matter; what a session may do is its host's.

mod approve;
pub mod client;
mod connection;
mod host;
mod http;
mod lines;
mod name;
mod page;
mod relay;
mod resources;
mod result;
mod roots;
mod stdio;
mod withdraw;

pub use host::{Client, Host};
pub use http::{Http, HttpServer};
pub use name::{ToolName, qualified};
pub use result::call_result;
pub use stdio::{serve, serve_stdio};
