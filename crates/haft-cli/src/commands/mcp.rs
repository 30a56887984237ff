//! `haft mcp`: sessions for clients that speak the Model Context Protocol.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use haft::journal::{Entry, Side};
use haft::{Approver, Session, Store};
use haft_mcp::{Client, Http};
use haft_sandbox::user;
use haft_tools::ops;

use super::Stop;
use crate::args::{Common, HttpFlags};
use crate::host::{self, Host};
use crate::style;

/// Where a token may be instead of a file.
const TOKEN: &str = "HAFT_MCP_TOKEN";
/// What is shorter can be guessed.
const SHORTEST_TOKEN: usize = 16;

pub(super) fn run(common: &Common, flags: HttpFlags) -> anyhow::Result<ExitCode> {
    let host = Host::open(common)?;
    if flags.http.is_some() && host.is_named() {
        anyhow::bail!("over HTTP each client has a session of its own, so --session cannot name one");
    }
    let alone = flags.http.is_none().then(|| Arc::new(host::nobody()) as Arc<dyn Approver>);
    let is_focused = common.focus.is_some();
    let served = Arc::new(Served { host, alone, is_focused });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(async {
        let mut stop = Stop::listen()?;
        match flags.http {
            None => haft_mcp::serve_stdio(served.clone(), stop.asked()).await?,
            Some(address) => {
                let http = Http {
                    address,
                    token: token(flags.token_file.as_deref())?,
                    origins: flags.allow_origin,
                    idle: Duration::from_secs(flags.idle_seconds.max(1)),
                };
                let server = http.listen().await.context("cannot listen; --token-file names a token")?;
                style::notice(&format!("serving http://{}/mcp", server.address()?));
                server.serve(served.clone(), stop.asked()).await?;
            }
        }
        anyhow::Ok(())
    });
    served.host.close(&[]);
    // Whoever still waits for a line must not keep haft from ending.
    runtime.shutdown_background();
    outcome.map(|()| ExitCode::SUCCESS)
}

/// The token that clients must know.
fn token(file: Option<&Path>) -> anyhow::Result<Option<String>> {
    let text = match file {
        Some(file) => {
            let bytes = user::read(file, 64 * 1024).with_context(|| format!("`{}`", file.display()))?;
            Some(String::from_utf8(bytes).context("the token is not text")?)
        }
        None => std::env::var(TOKEN).ok().filter(|text| !text.is_empty()),
    };
    let Some(token) = text.map(|text| text.trim().to_owned()) else { return Ok(None) };
    if token.len() < SHORTEST_TOKEN {
        anyhow::bail!("the token has {} characters, and needs at least {SHORTEST_TOKEN}", token.len());
    }
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        anyhow::bail!("the token must be of printable ASCII characters, without blanks");
    }
    Ok(Some(token))
}

/// What clients are served.
struct Served {
    host: Host,
    /// Whom to ask where a client cannot, instead of the terminal: that is the client's own.
    alone: Option<Arc<dyn Approver>>,
    is_focused: bool,
}

impl haft_mcp::Host for Served {
    fn instructions(&self) -> String {
        format!(
            "Tools for files, searching and commands in `{}`. Relative paths begin there. What was changed can be read \
             at haft://journal.",
            self.host.workspace.root()
        )
    }

    fn open(&self, client: Client) -> Result<Session, String> {
        let told = |error: anyhow::Error| format!("{error:#}");
        // The user's own word is narrower.
        let workspace = match self.is_focused {
            true => self.host.workspace.clone(),
            false => self.host.narrowed(&client.roots).map_err(told)?,
        };
        let mut builder = self.host.builder(None, workspace).map_err(told)?;
        if !self.host.is_named() {
            builder = builder.id(client.id);
        }
        if let Some(approver) = client.approver.or_else(|| self.alone.clone()) {
            builder = builder.approver(approver);
        }
        Ok(builder.start())
    }

    fn close(&self, session: &Session) {
        self.host.close(std::slice::from_ref(session));
    }

    fn results(&self) -> Store {
        self.host.state.folder("results")
    }

    fn difference(&self, session: &Session, entry: &Entry) -> Result<String, String> {
        let sides = [Side::Before, Side::After];
        ops::difference(&self.host.journal, session.workspace(), entry, sides)
            .map_err(|error| error.to_string())
    }
}
