//! Why a request failed, in words that name the host and the step.

use std::error::Error;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

/// Why a request was not made, or failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EgressError {
    /// Only `http` and `https` are spoken.
    #[error("`{0}` is not spoken here: only `http` and `https` are")]
    Scheme(String),
    /// The URL names no host.
    #[error("the URL names no host")]
    NoHost,
    /// The host has an address that must not be reached.
    #[error("`{host}` {}: it is {kind}", addressed(host, address))]
    Refused {
        /// The host as the URL names it.
        host: String,
        /// The address.
        address: IpAddr,
        /// What kind of address it is.
        kind: String,
    },
    /// The name has no address, or the lookup failed.
    #[error("`{host}` cannot be found: {why}")]
    Unresolved {
        /// The name.
        host: String,
        /// Why.
        why: String,
    },
    /// No connection could be made.
    #[error("`{host}` cannot be connected to: {why}")]
    Connect {
        /// The host.
        host: String,
        /// Why.
        why: String,
    },
    /// The server's certificate or its TLS is not acceptable.
    #[error("`{host}` cannot be trusted: {why}")]
    Tls {
        /// The host.
        host: String,
        /// Why.
        why: String,
    },
    /// Something took too long.
    #[error("`{host}` {what} within {} s", limit.as_secs_f64())]
    Timeout {
        /// The host.
        host: String,
        /// What did not happen.
        what: &'static str,
        /// The limit.
        limit: Duration,
    },
    /// The body is longer than the limit.
    #[error("`{host}` sends more than {limit} bytes")]
    TooLarge {
        /// The host.
        host: String,
        /// The limit in bytes, after decompression.
        limit: u64,
    },
    /// The server does not speak HTTP as it should.
    #[error("`{host}` does not answer properly: {why}")]
    Protocol {
        /// The host.
        host: String,
        /// Why.
        why: String,
    },
    /// The program cannot make HTTP clients.
    #[error("no HTTP client can be made: {0}")]
    Client(String),
}

fn addressed(host: &str, address: &IpAddr) -> String {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<IpAddr>() {
        Ok(named) if named == *address => "is not reached".to_owned(),
        _ => format!("is {address}, which is not reached"),
    }
}

impl EgressError {
    /// Converts an error of the HTTP library.
    pub(super) fn of(error: reqwest::Error, host: &str, connect: Duration) -> Self {
        if let Some(own) = find::<EgressError>(&error) {
            return own.clone();
        }
        let host = host.to_owned();
        let timeout =
            || EgressError::Timeout { host: host.clone(), what: "cannot be connected to", limit: connect };
        if let Some(error) = find::<rustls::Error>(&error) {
            return EgressError::Tls { host, why: tls_reason(error) };
        }
        let is_connect = error.is_connect();
        if is_connect && error.is_timeout() {
            return timeout();
        }
        let why = causes(&error.without_url());
        match is_connect {
            true => EgressError::Connect { host, why },
            false => EgressError::Protocol { host, why },
        }
    }
}

fn tls_reason(error: &rustls::Error) -> String {
    use rustls::{CertificateError, Error};
    match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "no authority that this system knows has signed its certificate".to_owned()
        }
        Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            "its certificate has expired".to_owned()
        }
        Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => "its certificate is for another name".to_owned(),
        other => other.to_string(),
    }
}

/// The innermost causes of an error; the outer ones only say that a request failed.
fn causes(error: &reqwest::Error) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut next = error.source();
    while let Some(cause) = next {
        let text = cause.to_string();
        if !parts.iter().any(|part| part.contains(&text)) {
            parts.push(text);
        }
        next = cause.source();
    }
    if parts.is_empty() { error.to_string() } else { parts.join(": ") }
}

/// Finds an error of a type among an error and its causes.
fn find<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    if let Some(found) = error.downcast_ref() {
        return Some(found);
    }
    // The source of an `io::Error` is not the error that it wraps, but that one's source.
    if let Some(inner) = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        let inner: &(dyn Error + 'static) = inner;
        return find(inner);
    }
    error.source().and_then(find)
}
