//! Names to addresses: each name is looked up once for a connection, every address is judged, and the connection goes to
//! no other. A second answer of the name server is never used.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::address::Reach;
use super::error::EgressError;
use super::stand_ins::StandIns;

/// How long a lookup may take: less than a connection, so that the error names the lookup.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(8);

/// The result of a lookup.
pub type Lookup = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Looks up names.
pub trait Resolver: Send + Sync {
    /// The addresses of a name.
    fn lookup(&self, name: &str) -> Lookup;
}

/// The resolver of the system.
pub(super) struct SystemResolver;

impl Resolver for SystemResolver {
    fn lookup(&self, name: &str) -> Lookup {
        let name = name.to_owned();
        Box::pin(async move {
            #[allow(clippy::disallowed_methods)] // the lint sends all other crates here
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// A resolver for the HTTP library, which passes on judged addresses alone.
#[derive(Clone)]
pub(super) struct JudgedResolver {
    pub(super) reach: Reach,
    pub(super) resolver: Arc<dyn Resolver>,
    pub(super) stand_ins: Option<Arc<StandIns>>,
}

impl JudgedResolver {
    /// The addresses of a name. Refused as a whole if one of them must not be reached: which one would be used is up to
    /// the server that answers.
    pub(super) async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, EgressError> {
        let unresolved = |why: String| EgressError::Unresolved { host: host.to_owned(), why };
        let found = match tokio::time::timeout(LOOKUP_TIMEOUT, self.resolver.lookup(host)).await {
            Ok(found) => found.map_err(|error| unresolved(error.to_string()))?,
            Err(_) => {
                return Err(unresolved(format!(
                    "no name server answers within {} s",
                    LOOKUP_TIMEOUT.as_secs()
                )));
            }
        };
        if found.is_empty() {
            return Err(unresolved("it has no address".to_owned()));
        }
        if !self.reach.names(host) {
            for address in &found {
                self.reach.judge(*address).map_err(|kind| EgressError::Refused {
                    host: host.to_owned(),
                    address: *address,
                    kind: kind.to_owned(),
                })?;
            }
        }
        Ok(found)
    }
}

impl Resolve for JudgedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let judged = self.clone();
        Box::pin(async move {
            let found = judged.addresses(name.as_str()).await?;
            // Port 0 stands for that of the URL.
            let actual = move |address: IpAddr| match &judged.stand_ins {
                Some(stand_ins) => stand_ins.of(address),
                None => SocketAddr::new(address, 0),
            };
            let addresses: Addrs = Box::new(found.into_iter().map(actual));
            Ok(addresses)
        })
    }
}

impl fmt::Debug for JudgedResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JudgedResolver").field("reach", &self.reach).finish_non_exhaustive()
    }
}
