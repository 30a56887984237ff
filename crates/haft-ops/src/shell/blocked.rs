//! Whether a command failed because of its sandbox. A program that is refused something says so in its own words, so
//! this is told from what it printed, and only of commands that failed in a sandbox with all layers that could be the reason.

use haft_sandbox::Exit;
use haft_sandbox::sandbox::{Layer, Policy, Report};
use haft_sandbox::sandbox::{Layers, Network};

/// What a sandbox refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// To change files.
    Files,
    /// To reach the network.
    Network,
}

impl Blocked {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Network => "network",
        }
    }
}

/// As far back as is looked, in bytes.
const LOOKED_AT: usize = 64 << 10;

/// What programs say when a file cannot be changed.
const FILES: [&str; 4] = ["read-only file system", "permission denied", "operation not permitted", "erofs"];
/// What programs say when there is no network.
const NETWORK: [&str; 14] = [
    "could not resolve host",
    "couldn't resolve host",
    "name or service not known",
    "temporary failure in name resolution",
    "network is unreachable",
    "no route to host",
    "failed to lookup address",
    "unable to resolve host",
    "getaddrinfo",
    "eai_again",
    "enotfound",
    "enetunreach",
    "no such host",
    "dns error",
];

/// What the sandbox refused a command that ended like this and printed that.
pub(super) fn blocked(exit: Exit, printed: &[&[u8]], policy: &Policy, report: &Report) -> Vec<Blocked> {
    if exit == Exit::Code(0) || policy.layers == Layers::None {
        return Vec::new();
    }
    let end = |bytes: &[u8]| bytes[bytes.len().saturating_sub(LOOKED_AT)..].to_ascii_lowercase();
    let texts: Vec<Vec<u8>> = printed.iter().map(|bytes| end(bytes)).collect();
    let says = |words: &[&str]| {
        words
            .iter()
            .any(|word| texts.iter().any(|text| memchr::memmem::find(text, word.as_bytes()).is_some()))
    };
    let mut found = Vec::new();
    if (report.has(Layer::View) || report.has(Layer::Paths)) && says(&FILES) {
        found.push(Blocked::Files);
    }
    if policy.network == Network::Off && says(&NETWORK) {
        found.push(Blocked::Network);
    }
    found
}
