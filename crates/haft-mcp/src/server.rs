//! Sessions served to clients. `connection` says what each request means, `conversation` holds the session of a client,
//! and `lines` and `http` are the transports. What a session may do is the host's decision.

mod approve;
mod call;
mod caller;
mod change_notifier;
mod client_roots;
mod connection;
mod conversation;
mod form;
mod host;
mod http;
mod lines;
mod page;
mod refuse;
mod relay;
mod resources;
mod respond;
mod result;
mod rounds;
mod running;
mod sessions;
mod stdio;
mod upstream;

pub use caller::{Caller, FormAnswer};
pub use change_notifier::ChangeNotifier;
pub use host::{Client, Extras, SessionHost};
pub use http::{HttpConfig, HttpServer};
pub use refuse::refuse_stdio;
pub use result::{OutputSchema, STRUCTURED_META_KEY, call_result};
pub use stdio::{serve, serve_stdio};
