//! Builds a host from the command line: the user at the terminal approves calls, and notices go to standard error.

use std::io::IsTerminal as _;
use std::sync::Arc;

use haft_core::Session;
use haft_host::{Environment, Host, HostError, Options};
use haft_sandbox::terminal::{self, Terminal};

use crate::approve::TerminalUser;
use crate::args::Common;
use crate::style;

/// Whether a session can ask the user.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Interaction {
    /// At the terminal, if there is one.
    Terminal,
    /// No: the terminal belongs to the client that started haft.
    None,
}

/// The environment of a command that works on files.
pub(crate) fn environment(common: &Common) -> Result<Environment, HostError> {
    Environment::find(common.workspace.as_deref())
}

/// The environment of a command that touches no files, which works in every folder.
pub(crate) fn lenient_environment(common: &Common) -> Result<Environment, HostError> {
    Environment::find_anywhere(common.workspace.as_deref())
}

/// The session of a command that continues one: the named one, else that of this terminal in this workspace.
pub(crate) fn session_name(common: &Common) -> Option<String> {
    common.session.clone().or_else(terminal::place)
}

/// Opens a host with the options of the command line, whose session is new unless it has a name.
pub(crate) fn open(common: &Common, interaction: Interaction) -> Result<Host, HostError> {
    open_session(common, interaction, common.session.clone())
}

/// Opens a host that continues a session.
pub(crate) fn open_session(
    common: &Common,
    interaction: Interaction,
    session: Option<String>,
) -> Result<Host, HostError> {
    let environment = environment(common)?;
    let mut options = Options::default();
    options.dialect = common.dialect.clone();
    options.add_dirs = common.add_dir.clone();
    options.focus = common.focus.clone();
    options.mode = common.mode.map(Into::into);
    options.session = session;
    if interaction == Interaction::Terminal && std::io::stderr().is_terminal() && Terminal::open().is_ok() {
        let user = TerminalUser::new(environment.results(), environment.known_tools());
        options.approver = Some(Arc::new(user.clone()));
        options.respondent = Some(Arc::new(user));
    }
    let host = Host::open(environment, options)?;
    print_notices(&host);
    Ok(host)
}

/// Saves the host's state and prints what could not be saved.
pub(crate) fn close(host: &Host, sessions: &[Session]) {
    host.close(sessions);
    print_notices(host);
}

fn print_notices(host: &Host) {
    host.take_notices().iter().for_each(|notice| style::notice(notice));
}
