//! Heuristic for failures that the sandbox caused. A program reports a refused access in its own words, so this searches
//! the output of failed commands for such words, and only if an active layer can be the cause. Knows nothing of the command.

use haft_sandbox::Exit;
use haft_sandbox::sandbox::{Layer, Policy, Report};
use haft_sandbox::sandbox::{Layers, Network};

/// Access that the sandbox refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// Changing files.
    Files,
    /// Using the network.
    Network,
}

impl Blocked {
    /// Name for replies.
    pub fn name(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Network => "network",
        }
    }
}

/// Bytes at the end of the output to search.
const SEARCHED_BYTES: usize = 64 << 10;

/// Words of programs that cannot change a file, in lower case.
const FILES: [&str; 4] = ["read-only file system", "permission denied", "operation not permitted", "erofs"];
/// Words of programs that have no network, in lower case.
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

/// Determines what the sandbox most likely refused, from the exit status and the output of a command.
pub(super) fn blocked(exit: Exit, printed: &[&[u8]], policy: &Policy, report: &Report) -> Vec<Blocked> {
    if exit == Exit::Code(0) || policy.layers == Layers::None {
        return Vec::new();
    }
    let end = |bytes: &[u8]| bytes[bytes.len().saturating_sub(SEARCHED_BYTES)..].to_ascii_lowercase();
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
