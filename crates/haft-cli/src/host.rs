//! From what was typed to a host: who is asked is whoever sits at the terminal, and notices go to standard error.

use std::io::IsTerminal as _;
use std::sync::Arc;

use haft_core::Session;
use haft_core::permissions::NoApprover;
use haft_host::{Environment, Host, HostError, Options};
use haft_sandbox::terminal::Terminal;

use crate::approve::AtTerminal;
use crate::args::Common;
use crate::style;

/// Who is asked what a session may do.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Asked {
    /// Whoever sits at the terminal, if there is one.
    AtTerminal,
    /// Nobody: the terminal is another program's.
    Nobody,
}

/// The environment that a command is about.
pub(crate) fn environment(common: &Common) -> Result<Environment, HostError> {
    Environment::find(common.workspace.as_deref())
}

/// The environment of a command that touches no file, and so may be given anywhere.
pub(crate) fn looked_at(common: &Common) -> Result<Environment, HostError> {
    Environment::look(common.workspace.as_deref())
}

/// A host for what was typed.
pub(crate) fn open(common: &Common, asked: Asked) -> Result<Host, HostError> {
    let environment = environment(common)?;
    let mut options = Options::default();
    options.dialect = common.dialect.clone();
    options.add_dirs = common.add_dir.clone();
    options.focus = common.focus.clone();
    options.mode = common.mode.map(Into::into);
    options.session = common.session.clone();
    if asked == Asked::AtTerminal && std::io::stderr().is_terminal() && Terminal::open().is_ok() {
        let person = AtTerminal::new(environment.results(), environment.known_tools());
        options.approver = Some(Arc::new(person.clone()));
        options.respondent = Some(Arc::new(person));
    } else {
        let how = "the user can allow it by starting with `--mode {mode}`";
        options.approver = Some(Arc::new(NoApprover::telling(how)));
    }
    let host = Host::open(environment, options)?;
    tell_notices(&host);
    Ok(host)
}

/// Keeps what is to be kept, and says what could not be.
pub(crate) fn close(host: &Host, sessions: &[Session]) {
    host.close(sessions);
    tell_notices(host);
}

fn tell_notices(host: &Host) {
    host.take_notices().iter().for_each(|notice| style::notice(notice));
}
