//! A server for the protocol's conformance suite: the tools, prompts and resources that the suite expects, built with
//! haft's library. `conformance/run` starts it and reports the results.
//!
//! Listens on the loopback interface, and prints its URL.
#![allow(missing_docs, clippy::print_stdout)] // an example
#![allow(deprecated)] // the suite wants to see a log

#[path = "conformance_server/offers.rs"]
mod offers;
#[path = "conformance_server/tools.rs"]
mod tools;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use haft_core::{Engine, Session, Store, Workspace};
use haft_journal::Entry;
use haft_mcp::{Client, Extras, HttpConfig, SessionHost};

struct Everything {
    folder: tempfile::TempDir,
    offers: offers::Fixtures,
}

impl SessionHost for Everything {
    fn instructions(&self) -> String {
        "Fixtures for a conformance suite.".to_owned()
    }

    fn open(&self, client: Client) -> Result<Session, haft_core::Fault> {
        let workspace = Workspace::open(self.folder.path()).map_err(|error| error.to_string())?;
        let mut session = Engine::default()
            .session(workspace)
            .id(client.id)
            .approver(client.approver)
            .respondent(client.respondent);
        for tool in tools::all(client.news) {
            session = session.shared_tool(tool);
        }
        Ok(session.start())
    }

    fn close(&self, _: &Session) {}

    fn results(&self) -> Store {
        Store::at(self.folder.path())
    }

    fn diff(&self, _: &Session, _: &Entry) -> Result<String, haft_core::Fault> {
        Err("nothing is changed here".into())
    }

    fn offers(&self) -> Option<&dyn Extras> {
        Some(&self.offers)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let http = HttpConfig {
        address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        token: None,
        // The suite checks that local pages are allowed, and others refused.
        origins: ["localhost", "127.0.0.1", "[::1]"].map(|host| format!("http://{host}:*")).into(),
        idle_timeout: Duration::from_secs(600),
    };
    let server = http.listen().await?;
    println!("http://{}/mcp", server.address()?);
    let host = Everything { folder: tempfile::tempdir()?, offers: offers::Fixtures };
    server.serve(Arc::new(host), std::future::pending()).await?;
    Ok(())
}
