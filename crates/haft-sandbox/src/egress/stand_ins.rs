//! Servers on loopback that play public hosts. Tests construct them through the Rust API; no setting, flag or variable
//! does.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// Local servers that answer for public addresses, in tests. Addresses are judged before they are replaced, so a test
/// sees the verdicts of the real network.
#[derive(Clone, Debug, Default)]
pub struct StandIns {
    servers: BTreeMap<IpAddr, SocketAddr>,
    certificates: Vec<Vec<u8>>,
}

impl StandIns {
    /// No server yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Connections to `address`, at the default port of their scheme, go to this server instead.
    #[must_use]
    pub fn server(mut self, address: IpAddr, server: SocketAddr) -> Self {
        self.servers.insert(address, server);
        self
    }

    /// Trusts the authority with this certificate (DER), besides those of the system.
    #[must_use]
    pub fn authority(mut self, certificate: Vec<u8>) -> Self {
        self.certificates.push(certificate);
        self
    }

    pub(super) fn of(&self, address: IpAddr) -> SocketAddr {
        self.servers.get(&address).copied().unwrap_or(SocketAddr::new(address, 0))
    }

    pub(super) fn certificates(&self) -> &[Vec<u8>] {
        &self.certificates
    }
}
