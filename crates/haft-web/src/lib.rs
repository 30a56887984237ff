//! Operations that reach the web: fetch one URL, and search with a provider. All connections go through the egress of
//! haft-sandbox, which judges addresses; hosts are claims, so rules and approval apply. What comes back is data: it is
//! converted to text with bounds, scrubbed, and fenced by the tools that show it. Knows no tool's name and no dialect.

mod cache;
mod content;
mod fence;
mod fetch;
mod probe;
mod search;
mod target;
mod web;

pub use content::Content;
pub use content::markdown;
pub use fence::{Fence, scrub};
pub use fetch::{Fetch, Fetched, MAX_TIMEOUT, PageReader, PageReaders, Redirect, Verb, Want};
pub use search::{Found, Key, MAX_RESULTS, Provider, Search, SearchAccount, SearchHit};
pub use target::Target;
pub use web::{DEFAULT_MAX_BYTES, Web};
