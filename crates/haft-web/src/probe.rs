//! Whether the proxy and the search provider answer, for people who look for what is wrong. Nothing is searched or
//! fetched, and no key is sent.

use std::time::Duration;

use haft_core::Fault;
use haft_sandbox::egress::{Bounds, Egress, EgressError, EgressOptions, Reach, Request, Url};

use crate::fetch::fault;
use crate::web::Web;

/// The limits of a probe.
const BOUNDS: Bounds =
    Bounds { idle: Duration::from_secs(5), total: Some(Duration::from_secs(10)), body: 64 * 1024 };

impl Web {
    /// Whether the proxy for public pages answers: its address, and the error if it does not. `None` without a proxy.
    pub async fn probe_proxy(&self) -> Option<(String, Result<(), Fault>)> {
        let public = Url::parse("https://example.org/").ok()?;
        let mut proxy = self.egress.proxy_for(&public)?.clone();
        // Its user and password are nobody's business.
        let _ = proxy.set_username("");
        let _ = proxy.set_password(None);
        let direct = Egress::new(EgressOptions { reach: Reach::Anywhere, ..EgressOptions::default() });
        let answered = direct.send(Request { bounds: BOUNDS, ..Request::get(proxy.clone()) }).await;
        Some((proxy.to_string(), answers(answered)))
    }

    /// Whether the search provider answers and there is a key for it: its name and host, and the error if not. `None`
    /// without a provider.
    pub async fn probe_search(&self) -> Option<(String, Result<(), Fault>)> {
        let account = self.search.as_ref()?;
        let name = format!("{} at {}", account.provider.name(), account.host());
        if let Err(fault) = account.key().await {
            return Some((name, Err(fault)));
        }
        let answered =
            self.search_egress.send(Request { bounds: BOUNDS, ..Request::get(account.url.clone()) }).await;
        Some((name, answers(answered)))
    }
}

/// Whether a server answers, be it that it refuses the request.
fn answers<T>(answered: Result<T, EgressError>) -> Result<(), Fault> {
    match answered {
        Ok(_) | Err(EgressError::Protocol { .. }) => Ok(()),
        Err(error) => Err(fault(error)),
    }
}
