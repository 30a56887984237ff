//! haft and the Model Context Protocol: how a tool of another server is named, and how a reply is told in
//! the protocol's words. Serving and connecting come on top of these two; neither knows a transport.

mod name;
mod result;

pub use name::{ToolName, qualified};
pub use result::call_result;
