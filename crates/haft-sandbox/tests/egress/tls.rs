//! Certificates: only those of an authority that is trusted, valid now, for this name, over a TLS of this century.

use std::io::{Read as _, Write as _};

use super::*;
use haft_testing::http::{Certificate, HttpServer, response};

/// A server with this certificate, and the authority that signed it.
fn server(certificate: &Certificate) -> (HttpServer, Vec<u8>) {
    let server =
        HttpServer::start_tls(certificate, |_, stream| stream.write_all(&response("200 OK", &[], "safe")));
    (server, certificate.authority())
}

fn named(name: &str) -> Certificate {
    Certificate::new(&[name])
}

async fn fetched(server: &HttpServer, authority: Option<Vec<u8>>) -> Result<String, EgressError> {
    let mut stand_ins = StandIns::new().server(PUBLIC.parse().unwrap(), server.address());
    if let Some(authority) = authority {
        stand_ins = stand_ins.authority(authority);
    }
    let names = Names::default().with("site.example", &[&[PUBLIC]]);
    body(&with_names(names, stand_ins), "https://site.example/").await
}

#[tokio::test]
async fn a_valid_certificate_of_a_trusted_authority_is_accepted() {
    let (server, authority) = server(&named("site.example"));
    assert_eq!(fetched(&server, Some(authority)).await.unwrap(), "safe");
}

#[tokio::test]
async fn an_unknown_authority_is_refused() {
    let (server, _) = server(&named("site.example"));
    let refused = fetched(&server, None).await.unwrap_err();
    assert!(matches!(&refused, EgressError::Tls { .. }), "{refused}");
    assert_eq!(server.received().len(), 0, "nothing was sent, and not without TLS either");
}

#[tokio::test]
async fn another_name_is_refused() {
    let (server, authority) = server(&named("other.example"));
    let refused = fetched(&server, Some(authority)).await.unwrap_err().to_string();
    assert!(refused.contains("another name"), "{refused}");
}

#[tokio::test]
async fn an_expired_certificate_is_refused() {
    let (server, authority) = server(&Certificate::between(&["site.example"], 2001, 2002));
    let refused = fetched(&server, Some(authority)).await.unwrap_err().to_string();
    assert!(refused.contains("expired"), "{refused}");
}

#[tokio::test]
async fn an_old_tls_is_refused() {
    // A server that knows TLS 1.0 alone answers with the alert `protocol_version`.
    let server = HttpServer::start_raw(|mut stream, _| {
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(&[0x15, 3, 1, 0, 2, 2, 70]);
    });
    let refused = fetched(&server, None).await.unwrap_err();
    assert!(matches!(refused, EgressError::Tls { .. }), "{refused}");
}
