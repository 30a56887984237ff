//! The settings of the web: what may be reached, through which proxy, and who searches. Only the user's own file has them.

use haft_sandbox::egress::{EgressOptions, Private, Proxies, ProxyLookup, Reach};
use haft_web::{DEFAULT_MAX_BYTES, Key, Provider, SearchAccount};
use schemars::JsonSchema;
use serde::Deserialize;

use super::Result;
use crate::error::HostError;

/// The largest `max_megabytes`.
const MAX_MEGABYTES: u64 = 200;

/// How the web is reached.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Web {
    /// Networks and hosts of your own that pages may be fetched from, besides public ones: such as `127.0.0.0/8`,
    /// `10.0.0.0/8` or `wiki.example.org`. Only in your own settings, as all of `web`.
    pub allow_private: Vec<String>,
    /// The proxy for pages and searches, such as `http://proxy.example.org:3128` (default: those of the environment that
    /// haft was started in; `none` for no proxy).
    pub proxy: Option<String>,
    /// Whether names are looked up by the proxy alone, where this machine cannot (default: false). haft then cannot see
    /// that a name leads to a private address.
    pub proxy_resolves: Option<bool>,
    /// How many megabytes of a page are read, after decompression (default: 10; at most 200).
    #[schemars(range(min = 1, max = MAX_MEGABYTES))]
    pub max_megabytes: Option<u64>,
    /// Who searches the web; without it, the tools for that are not offered.
    pub search: Option<WebSearch>,
}

/// Who searches the web.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WebSearch {
    /// The provider: `searxng`, `brave`, `tavily`, `exa` or `serper`.
    pub provider: ProviderSetting,
    /// Where it is asked; `searxng` needs it, the others have addresses of their own.
    pub url: Option<String>,
    /// The variable of the environment with your key.
    pub key_env: Option<String>,
    /// The command that prints your key, run by `sh` outside of the workspace and the sandbox.
    pub key_command: Option<String>,
}

/// A search provider.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProviderSetting {
    /// A SearXNG server.
    Searxng,
    /// Brave Search.
    Brave,
    /// Tavily.
    Tavily,
    /// Exa.
    Exa,
    /// Serper.
    Serper,
}

impl From<ProviderSetting> for Provider {
    fn from(setting: ProviderSetting) -> Self {
        match setting {
            ProviderSetting::Searxng => Provider::Searxng,
            ProviderSetting::Brave => Provider::Brave,
            ProviderSetting::Tavily => Provider::Tavily,
            ProviderSetting::Exa => Provider::Exa,
            ProviderSetting::Serper => Provider::Serper,
        }
    }
}

impl Web {
    /// Validates what the types cannot express.
    pub(super) fn check(&self) -> Result<()> {
        if self.max_megabytes.is_some_and(|count| !(1..=MAX_MEGABYTES).contains(&count)) {
            return Err(HostError::settings(format!(
                "`web.max_megabytes` must be between 1 and {MAX_MEGABYTES}"
            )));
        }
        self.runtime().map(drop)
    }

    /// What sessions get.
    pub fn runtime(&self) -> Result<haft_web::Web> {
        let wrong = |key: &str, why: String| HostError::settings(format!("`web.{key}`: {why}"));
        let and: std::result::Result<Vec<Private>, String> =
            self.allow_private.iter().map(|allowed| allowed.parse()).collect();
        let proxies = match self.proxy.as_deref() {
            None => Proxies::of_environment().clone(),
            Some("none") => Proxies::none(),
            Some(proxy) => Proxies::all(proxy).map_err(|why| wrong("proxy", why))?,
        };
        let options = EgressOptions {
            reach: Reach::Public { and: and.map_err(|why| wrong("allow_private", why))? },
            proxies,
            proxy_lookup: match self.proxy_resolves {
                Some(true) => ProxyLookup::Proxy,
                _ => ProxyLookup::Here,
            },
            ..EgressOptions::default()
        };
        let account = self.search.as_ref().map(WebSearch::account).transpose();
        let account = account.map_err(|why| wrong("search", why))?;
        let max_bytes = self.max_megabytes.map_or(DEFAULT_MAX_BYTES, |count| count << 20);
        Ok(haft_web::Web::new(options, max_bytes, account))
    }
}

impl WebSearch {
    fn account(&self) -> std::result::Result<SearchAccount, String> {
        let key = match (&self.key_env, &self.key_command) {
            (None, None) => Key::None,
            (Some(name), None) => Key::Variable(name.clone()),
            (None, Some(command)) => Key::Command(command.clone()),
            (Some(_), Some(_)) => return Err("set `key_env` or `key_command`, not both".to_owned()),
        };
        SearchAccount::new(self.provider.into(), self.url.as_deref(), key)
    }
}
