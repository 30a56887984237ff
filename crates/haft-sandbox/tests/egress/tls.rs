//! Certificates: only those of an authority that is trusted, valid now, for this name, over a TLS of this century.

use std::io::{Read as _, Write as _};

use super::*;
use haft_sandbox::egress::install_tls;
use haft_testing::http::{HttpServer, read_request, response};
use rcgen::{CertificateParams, CertifiedIssuer, KeyPair, date_time_ymd};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// A server with a certificate for a name, and the authority that signed it.
fn server(params: CertificateParams) -> (HttpServer, Vec<u8>) {
    install_tls();
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &authority).unwrap();
    let chain = vec![CertificateDer::from(certificate.der().to_vec())];
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
    let config = Arc::new(config);
    let server = HttpServer::start_raw(move |stream, received| {
        let connection = ServerConnection::new(config.clone()).unwrap();
        let mut stream = StreamOwned::new(connection, stream);
        let Ok(request) = read_request(&mut stream) else { return };
        received(request);
        let _ = stream.write_all(&response("200 OK", &[], "safe"));
        stream.conn.send_close_notify();
        let _ = stream.flush();
    });
    (server, authority.der().to_vec())
}

fn named(name: &str) -> CertificateParams {
    CertificateParams::new(vec![name.to_owned()]).unwrap()
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
    let (server, authority) = server(named("site.example"));
    assert_eq!(fetched(&server, Some(authority)).await.unwrap(), "safe");
}

#[tokio::test]
async fn an_unknown_authority_is_refused() {
    let (server, _) = server(named("site.example"));
    let refused = fetched(&server, None).await.unwrap_err();
    assert!(matches!(&refused, EgressError::Tls { .. }), "{refused}");
    assert_eq!(server.received().len(), 0, "nothing was sent, and not without TLS either");
}

#[tokio::test]
async fn another_name_is_refused() {
    let (server, authority) = server(named("other.example"));
    let refused = fetched(&server, Some(authority)).await.unwrap_err().to_string();
    assert!(refused.contains("another name"), "{refused}");
}

#[tokio::test]
async fn an_expired_certificate_is_refused() {
    let mut expired = named("site.example");
    expired.not_before = date_time_ymd(2001, 1, 1);
    expired.not_after = date_time_ymd(2002, 1, 1);
    let (server, authority) = server(expired);
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
