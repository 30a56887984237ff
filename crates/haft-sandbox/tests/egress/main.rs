//! The way out to the network, with real connections to servers on loopback. Some play public hosts.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // the servers are the tests' own

mod bounds;
mod proxies;
mod refused;
mod streams;
mod tls;

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haft_sandbox::egress::{
    Bounds, Egress, EgressError, EgressOptions, Lookup, Request, Resolver, Response, StandIns, Url,
};

/// A name server: for each name the answers in turn, the last one for good. A name without answers is not found.
#[derive(Clone, Default)]
struct Names(Arc<Mutex<HashMap<String, Vec<Vec<IpAddr>>>>>);

impl Names {
    fn with(self, name: &str, answers: &[&[&str]]) -> Self {
        let answers =
            answers.iter().map(|answer| answer.iter().map(|ip| ip.parse().unwrap()).collect()).collect();
        self.0.lock().unwrap().insert(name.to_owned(), answers);
        self
    }
}

impl Resolver for Names {
    fn lookup(&self, name: &str) -> Lookup {
        let mut names = self.0.lock().unwrap();
        let answer = match names.get_mut(name) {
            None => Err(io::Error::other("no such name")),
            Some(answers) if answers.len() > 1 => Ok(answers.remove(0)),
            Some(answers) => Ok(answers[0].clone()),
        };
        Box::pin(std::future::ready(answer))
    }
}

/// A public address for tests; nothing connects to it.
const PUBLIC: &str = "93.184.216.34";
const OTHER: &str = "93.184.216.35";

/// An egress to the public, in which `site.example` is a public host that this server plays.
fn playing(server: SocketAddr) -> Egress {
    let names = Names::default().with("site.example", &[&[PUBLIC]]);
    with_names(names, StandIns::new().server(PUBLIC.parse().unwrap(), server))
}

fn with_names(names: Names, stand_ins: StandIns) -> Egress {
    Egress::new(EgressOptions {
        resolver: Some(Arc::new(names)),
        stand_ins: Some(stand_ins),
        ..EgressOptions::default()
    })
}

fn get(url: &str) -> Request {
    Request::get(Url::parse(url).unwrap())
}

fn within(url: &str, bounds: Bounds) -> Request {
    Request { bounds, ..get(url) }
}

/// Limits that a test reaches soon.
fn tight() -> Bounds {
    Bounds { idle: Duration::from_millis(400), total: Some(Duration::from_secs(2)), body: 100_000 }
}

async fn body(egress: &Egress, url: &str) -> Result<String, EgressError> {
    let response: Response = egress.send(get(url)).await?;
    Ok(String::from_utf8(response.bytes().await?).unwrap())
}
