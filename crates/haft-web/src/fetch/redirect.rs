//! Where a response sends its caller on to, and whether to go there: within a site every hop is judged like the first
//! request; anything else is the model's decision, in a call of its own.

use haft_core::permissions::Verdict;
use haft_core::{Claims, Context, Mode, Resource};
use haft_sandbox::egress::{Response, header};

use super::{Fetch, Verb, is_redirect};
use crate::target::Target;
use crate::web::Web;

/// A redirect that was not followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// Where it leads.
    pub to: String,
    /// Why it was not followed.
    pub why: String,
}

/// What comes after a response.
pub(super) enum Hop {
    /// Nothing: this is the answer.
    Arrived,
    /// A request to this URL.
    Follow(Box<Target>),
    /// A redirect that is named and not followed.
    Elsewhere(Redirect),
}

/// Where a response leads.
pub(super) fn next(fetch: &Fetch, from: &Target, response: &Response, web: &Web, cx: &Context) -> Hop {
    let location = response.headers().get(header::LOCATION);
    let Some(location) = location.filter(|_| is_redirect(response.status())) else { return Hop::Arrived };
    let location = String::from_utf8_lossy(location.as_bytes());
    let elsewhere = |to: String, why: String| {
        Hop::Elsewhere(Redirect { to: crate::fence::scrub(&to).0.chars().take(2000).collect(), why })
    };
    let Ok(url) = from.url().join(location.trim()) else {
        return elsewhere(location.into_owned(), "it is no URL".to_owned());
    };
    let to = match Target::new(url.clone(), web.egress.reach()) {
        Ok(to) => to,
        Err(fault) => return elsewhere(url.into(), fault.message().to_owned()),
    };
    let shown = to.url().to_string();
    if let Err(error) = web.egress.judge(to.url()) {
        return elsewhere(shown, error.to_string());
    }
    let is_upgrade = from.url().scheme() == "http" && to.url().scheme() == "https";
    let is_same_scheme = from.url().scheme() == to.url().scheme();
    let has_same_port = from.url().port_or_known_default() == to.url().port_or_known_default()
        || (is_upgrade && has_no_port(from, &to));
    if !(is_same_scheme || is_upgrade) || !has_same_port {
        return elsewhere(shown, "it leads to another scheme or port".to_owned());
    }
    let keeps_request = matches!(response.status().as_u16(), 307 | 308);
    if fetch.verb != Verb::Get && !keeps_request {
        return elsewhere(shown, "a request that sends something is not turned into another one".to_owned());
    }
    let (host, other) = (from.host(), to.host());
    if host == other {
        return Hop::Follow(Box::new(to));
    }
    let without_www = |host: &str| host.strip_prefix("www.").unwrap_or(host).to_owned();
    if without_www(&host) != without_www(&other) {
        return elsewhere(shown, "it leads to another host".to_owned());
    }
    match !fetch.sends_more() && is_permitted(&other, cx) {
        true => Hop::Follow(Box::new(to)),
        false => elsewhere(shown, format!("no rule allows `{other}` yet")),
    }
}

fn has_no_port(from: &Target, to: &Target) -> bool {
    from.url().port().is_none() && to.url().port().is_none()
}

/// Whether a page of this host may be read without a question.
pub(super) fn is_permitted(host: &str, cx: &Context) -> bool {
    let claims = Claims::none().read(Resource::Host(host.to_owned()));
    match cx.verdict(&claims) {
        Ok(Verdict::Allow { .. }) => true,
        Ok(Verdict::Abstain) => cx.session().mode() == Mode::Bypass,
        _ => false,
    }
}
