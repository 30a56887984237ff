//! Settings, trust, granted rules and state, and an engine and sessions built from them: what the command `haft` runs on.
//!
//! [`Environment`] loads the settings of a workspace and locates its state folder; [`Host`] builds an engine and sessions
//! from it and saves their state. Nothing here prints.

mod environment;
mod error;
mod grants;
mod host;
pub mod settings;
pub mod setup;

pub use environment::{Environment, any_folder, current_workspace, state_folder};
pub use error::{HostError, HostErrorKind};
pub use grants::Grants;
pub use host::{
    Host, Options, command_hook, dialect, journal_limits, load_session, parse_session, result_store, servers,
    stats, unused_hook_warning,
};
