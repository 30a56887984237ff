//! Other servers' tools as a session has them. The server is `tests/peers/fault.py`, which does as it is told, and what
//! people use from npm, where `tests/peers/install` has put it.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // a test looks from outside

mod calls;
mod changes;
mod ending;
mod faults;
mod login;
mod npm;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use haft_core::{Call, Engine, EngineBuilder, Mode, Reply, Session, Workspace};
use haft_mcp::client::{Server, ServerTransport, Servers};
use serde_json::{Value, json};

/// The longest wait for an answer.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A session that has joined servers.
struct World {
    _folder: tempfile::TempDir,
    dir: PathBuf,
    servers: Servers,
    session: Session,
}

impl World {
    fn with(servers: Vec<Server>, engine: EngineBuilder) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().canonicalize().unwrap();
        let workspace = Workspace::open(&dir).unwrap();
        let session = engine.build().session(workspace).mode(Mode::Bypass).start();
        let servers = Servers::new(servers, &dir);
        servers.join(&session);
        Self { _folder: folder, dir, servers, session }
    }

    /// A session with `fault.py` as the server `fault`. None without Python.
    async fn fault(mode: &str) -> Option<Self> {
        let world = Self::with(vec![fault("fault", mode)?], Engine::builder());
        world.servers.start_all().await;
        Some(world)
    }

    async fn call(&self, tool: &str, input: Value) -> Reply {
        let name = format!("mcp__fault__{tool}");
        let call = self.session.call(Call::new("1", name, input));
        tokio::time::timeout(TIMEOUT, call).await.unwrap()
    }

    /// The reply of a call that must succeed.
    async fn text(&self, tool: &str, input: Value) -> String {
        let reply = self.call(tool, input).await;
        assert!(!reply.is_error, "{tool}: {}", reply.full_text());
        reply.full_text()
    }

    /// The message of a call that must fail.
    async fn failure(&self, tool: &str, input: Value) -> String {
        let reply = self.call(tool, input).await;
        assert!(reply.is_error, "{tool}: {}", reply.full_text());
        reply.full_text()
    }
}

fn peers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/peers").canonicalize().unwrap()
}

fn command(program: &str, args: &[&str]) -> ServerTransport {
    ServerTransport::Command {
        program: program.to_owned(),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        dir: None,
        env: BTreeMap::new(),
        pass_env: Vec::new(),
    }
}

/// `fault.py` in one of its modes.
fn fault(name: &str, mode: &str) -> Option<Server> {
    if !haft_testing::require(haft_testing::Need::Python) {
        return None;
    }
    let script = peers().join("fault.py");
    let args: Vec<&str> = std::iter::once(script.to_str().unwrap()).chain(mode.split(' ')).collect();
    Some(Server::new(name, command("python3", &args)))
}

/// Polls until a condition holds.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < TIMEOUT, "not yet: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Whether a process exists and is not a zombie.
fn is_running(pid: &str) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => !stat.rsplit(')').next().unwrap().trim_start().starts_with('Z'),
        Err(_) => false,
    }
}
