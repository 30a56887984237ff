//! `haft mcp`: sessions for clients that speak the Model Context Protocol.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use haft::journal::{Entry, Side};
use haft::{Session, Store};
use haft_mcp::{Client, Http};
use haft_sandbox::user;
use haft_tools::ops;

use super::Stop;
use crate::args::{Common, HttpFlags};
use crate::host::Host;
use crate::style;

/// Where a token may be instead of a file.
const TOKEN: &str = "HAFT_MCP_TOKEN";
/// What is shorter can be guessed.
const SHORTEST_TOKEN: usize = 16;

pub(super) fn run(common: &Common, flags: HttpFlags) -> anyhow::Result<ExitCode> {
    // The terminal is the client's that starts haft.
    let host = if flags.http.is_some() { Host::open(common)? } else { Host::unattended(common)? };
    if flags.http.is_some() && host.is_named() {
        anyhow::bail!("over HTTP each client has a session of its own, so --session cannot name one");
    }
    let served = Arc::new(Served(host));
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if flags.http.is_none() {
        // The messages of one client go from task to task. Several workers pass them from thread to thread, which takes as
        // long as a sixth of a read. What blocks or takes long is on other threads in any case.
        runtime.worker_threads(1);
    }
    let runtime = runtime.enable_all().build()?;
    let outcome = runtime.block_on(async {
        let mut stop = Stop::listen()?;
        match flags.http {
            None => {
                if std::io::stdin().is_terminal() {
                    style::notice("waiting for a client to speak the Model Context Protocol on standard input");
                }
                haft_mcp::serve_stdio(served.clone(), stop.asked()).await?;
            }
            Some(address) => {
                let http = Http {
                    address,
                    token: token(flags.token_file.as_deref())?,
                    origins: flags.allow_origin,
                    idle: Duration::from_secs(flags.idle_seconds.max(1)),
                };
                if http.token.is_none() && !address.ip().to_canonical().is_loopback() {
                    anyhow::bail!(
                        "whoever can reach `{address}` could use it: name a token with --token-file, or in {TOKEN}"
                    );
                }
                let server = http.listen().await.with_context(|| format!("cannot listen at `{address}`"))?;
                style::notice(&format!("serving http://{}/mcp", server.address()?));
                server.serve(served.clone(), stop.asked()).await?;
            }
        }
        anyhow::Ok(())
    });
    runtime.block_on(served.0.end_servers());
    served.0.close(&[]);
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
struct Served(Host);

impl haft_mcp::Host for Served {
    fn instructions(&self) -> String {
        format!(
            "Tools for files, searching and commands in `{}`. Relative paths begin there. What was changed can be read \
             at haft://journal.",
            self.0.workspace.root()
        )
    }

    fn open(&self, client: Client) -> Result<Session, String> {
        self.0.session_for(client).map_err(|error| format!("{error:#}"))
    }

    fn moved(&self, session: &Session, roots: Vec<PathBuf>) {
        if let Err(error) = self.0.follow(session, &roots) {
            style::notice(&format!("a client has moved to where it cannot be followed: {error:#}"));
        }
    }

    fn close(&self, session: &Session) {
        self.0.let_go(session);
        self.0.close(std::slice::from_ref(session));
    }

    fn results(&self) -> Store {
        self.0.state.folder("results")
    }

    fn difference(&self, session: &Session, entry: &Entry) -> Result<String, String> {
        let sides = [Side::Before, Side::After];
        ops::difference(&self.0.journal, &session.workspace(), entry, sides)
            .map_err(|error| error.to_string())
    }
}
