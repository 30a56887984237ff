//! What the web operations of a session share: the egress, the limits and the search account.

use std::sync::Arc;

use haft_sandbox::egress::{Egress, EgressOptions, Proxies, Reach};

use crate::search::SearchAccount;

/// The most bytes of a page, after decompression, unless a setting says otherwise.
pub const DEFAULT_MAX_BYTES: u64 = 10 * 1024 * 1024;

/// Session extension: how the web is reached. Default: public addresses, through the proxies of haft's own environment,
/// without a search provider.
#[derive(Clone)]
pub struct Web {
    /// The way out for pages.
    pub egress: Egress,
    /// The most bytes of a page, after decompression.
    pub max_bytes: u64,
    /// The search provider, if the user has configured one.
    pub search: Option<Arc<SearchAccount>>,
    /// The way out to the search provider, which the user has chosen and which may be on a private network.
    pub search_egress: Egress,
}

impl Default for Web {
    fn default() -> Self {
        let proxies = Proxies::of_environment().clone();
        let options = EgressOptions { proxies, ..EgressOptions::default() };
        Self::new(options, DEFAULT_MAX_BYTES, None)
    }
}

impl Web {
    /// The web through an egress with these options.
    pub fn new(options: EgressOptions, max_bytes: u64, search: Option<SearchAccount>) -> Self {
        let to_provider = EgressOptions { reach: Reach::Anywhere, ..options.clone() };
        Self {
            egress: Egress::new(options),
            max_bytes,
            search: search.map(Arc::new),
            search_egress: Egress::new(to_provider),
        }
    }
}
