//! Settings, trust, grants and state: an engine and sessions made from them, as the command `haft` has them.
//!
//! [`Environment`] finds the settings of a workspace and where its state is kept; [`Host`] makes an engine and sessions
//! from it, and keeps what they know. Nothing here prints.

mod environment;
mod error;
mod grants;
mod host;
pub mod settings;

pub use environment::{Environment, implicit_root, looked_at, state_of};
pub use error::{HostError, HostErrorKind};
pub use grants::Grants;
pub use host::{
    Host, Options, command_hook, dialect, idle, journal_limits, read_session, saved, servers, stats,
};
