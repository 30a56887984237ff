//! `haft mcp`: serves sessions to clients of the Model Context Protocol, over standard input and output or HTTP.

use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use haft_core::Fault;
use haft_core::{Session, Store};
use haft_journal::{Entry, Side};
use haft_mcp::{Client, HttpConfig};
use haft_ops as ops;
use haft_sandbox::user;

use super::StopSignal;
use crate::args::{Common, HttpFlags};
use crate::host::{self, Interaction};
use crate::logging::CallLog;
use crate::style;
use haft_host::Host;

/// The environment variable with the token, as an alternative to a file.
const TOKEN: &str = "HAFT_MCP_TOKEN";
/// Minimum length of a token; a shorter one could be guessed.
const MIN_TOKEN: usize = 16;

pub(super) fn run(common: &Common, flags: HttpFlags) -> anyhow::Result<ExitCode> {
    // Without HTTP, the terminal belongs to the client that started haft.
    let interaction = if flags.http.is_some() { Interaction::Terminal } else { Interaction::None };
    let host = match host::open(common, interaction) {
        Ok(host) => host,
        Err(error) if flags.http.is_none() && !std::io::stdin().is_terminal() => return refuse(&error),
        Err(error) => return Err(error.into()),
    };
    if flags.http.is_some() && host.is_named() {
        anyhow::bail!("over HTTP each client has a session of its own, so --session cannot name one");
    }
    let _log = CallLog::start(host.engine());
    let served = Arc::new(McpHost(host));
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if flags.http.is_none() {
        // One client's messages pass through several tasks. With more workers they also change threads, which costs a sixth
        // of a read's time. Work that blocks or takes long runs on the blocking pool in any case.
        runtime.worker_threads(1);
    }
    let runtime = runtime.enable_all().build()?;
    let outcome = runtime.block_on(async {
        let mut stop = StopSignal::listen()?;
        match flags.http {
            None => {
                if std::io::stdin().is_terminal() {
                    style::notice("waiting for a client to speak the Model Context Protocol on standard input");
                }
                haft_mcp::serve_stdio(served.clone(), stop.received()).await?;
            }
            Some(address) => {
                let address = resolve(&address).await?;
                let http = HttpConfig {
                    address,
                    token: token(flags.token_file.as_deref())?,
                    origins: flags.allow_origin,
                    idle_timeout: Duration::from_secs(flags.idle_seconds.max(1)),
                };
                if http.token.is_none() && !address.ip().to_canonical().is_loopback() {
                    anyhow::bail!(
                        "whoever can reach `{address}` could use it: name a token with --token-file, or in {TOKEN}"
                    );
                }
                let server = http.listen().await.with_context(|| format!("cannot listen at `{address}`"))?;
                style::notice(&format!("serving http://{}/mcp", server.address()?));
                server.serve(served.clone(), stop.received()).await?;
            }
        }
        anyhow::Ok(())
    });
    runtime.block_on(served.0.end_servers());
    host::close(&served.0, &[]);
    // A pending read of standard input must not keep haft from ending.
    runtime.shutdown_background();
    outcome.map(|()| ExitCode::SUCCESS)
}

/// Tells the client why haft cannot serve it: without an answer it would only show that the connection was closed.
fn refuse(error: &haft_host::HostError) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut stop = StopSignal::listen()?;
        let reason = format!("haft cannot start: {error}");
        haft_mcp::refuse_stdio(&reason, stop.received()).await?;
        anyhow::Ok(())
    })?;
    // A pending read of standard input must not keep haft from ending.
    runtime.shutdown_background();
    anyhow::bail!("{error}")
}

/// The address to listen at: numbers, or a name such as `localhost` that the machine knows.
async fn resolve(address: &str) -> anyhow::Result<SocketAddr> {
    let wrong =
        || format!("`{address}` is no address to listen at: give one with a port, such as localhost:8765");
    #[allow(clippy::disallowed_methods)] // an address of this machine, which nothing connects to
    let found: Vec<SocketAddr> = tokio::net::lookup_host(address).await.with_context(wrong)?.collect();
    // Clients that know only one of both protocols know this one.
    let ipv4 = found.iter().find(|address| address.is_ipv4());
    ipv4.or(found.first()).copied().with_context(wrong)
}

/// The token that clients must send, from a file or the environment.
fn token(file: Option<&Path>) -> anyhow::Result<Option<String>> {
    let text = match file {
        Some(file) => {
            let bytes = user::read(file, 64 * 1024).with_context(|| format!("`{}`", file.display()))?;
            Some(String::from_utf8(bytes).context("the token is not text")?)
        }
        None => std::env::var(TOKEN).ok().filter(|text| !text.is_empty()),
    };
    let Some(token) = text.map(|text| text.trim().to_owned()) else { return Ok(None) };
    if token.len() < MIN_TOKEN {
        anyhow::bail!("the token has {} characters, and needs at least {MIN_TOKEN}", token.len());
    }
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        anyhow::bail!("the token must be of printable ASCII characters, without blanks");
    }
    Ok(Some(token))
}

/// The host as the MCP server uses it.
struct McpHost(Host);

impl haft_mcp::SessionHost for McpHost {
    fn instructions(&self) -> String {
        format!(
            "Tools for files, searching and commands in `{}`. Relative paths begin there. What was changed can be read \
             at haft://journal.",
            self.0.workspace().root()
        )
    }

    fn open(&self, client: Client) -> Result<Session, Fault> {
        self.0.session_for(client).map_err(|error| Fault::failed(error.to_string()))
    }

    fn roots_changed(&self, session: &Session, roots: Vec<PathBuf>) {
        if let Err(error) = self.0.update_roots(session, &roots) {
            style::notice(&format!(
                "the folders of a client have changed to ones that it cannot use: {error:#}"
            ));
        }
    }

    fn close(&self, session: &Session) {
        self.0.stop_client_servers(session);
        host::close(&self.0, std::slice::from_ref(session));
    }

    fn results(&self) -> Store {
        self.0.state().folder("results")
    }

    fn diff(&self, session: &Session, entry: &Entry) -> Result<String, Fault> {
        let sides = [Side::Before, Side::After];
        Ok(ops::difference(self.0.journal(), &session.workspace(), entry, sides)?)
    }
}
