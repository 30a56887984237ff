//! Other servers' tools as one's own: which servers there are, how they are started and ended, and how what they offer
//! becomes tools of a session. A server is not believed: what it calls itself, says of its tools and sends back is
//! bounded, and whether a call may happen is decided as for every tool.

mod answer;
mod bounds;
mod config;
mod connect;
mod elicit;
mod handler;
mod link;
mod listing;
mod login;
mod notifications;
mod paths;
mod pipe;
mod resources;
mod server;
mod servers;
mod tool;
mod web;

pub use config::{BadServer, ServerConfig, Shared, Variables, servers_in};
pub use link::{State, Status};
pub use listing::About;
pub use login::{Loopback, Visitor};
pub use resources::{Prompt, PromptArgument};
pub use server::{Limits, OAuth, Protocol, Server, ServerTransport};
pub use servers::{Servers, Tested};
