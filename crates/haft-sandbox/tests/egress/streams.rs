//! Bodies in both directions, and requests that are given up.

use std::sync::mpsc;

use super::*;
use haft_sandbox::egress::{HeaderValue, Method, header};
use haft_testing::http::{HttpServer, response};

#[tokio::test]
async fn a_request_carries_its_method_headers_and_body() {
    let server = HttpServer::fixed(response("201 Created", &[("X-Made", "yes")], "made"));
    let mut request = get("http://site.example/things?a=b");
    request.method = Method::POST;
    request.headers.insert(header::AUTHORIZATION, HeaderValue::from_static("Bearer key"));
    request.body = Some(r#"{"name":"thing"}"#.into());
    let answer = playing(server.address()).send(request).await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.headers()["x-made"].to_str().unwrap()), (201, "yes"));
    assert_eq!(answer.bytes().await.unwrap(), b"made");
    let got = &server.received()[0];
    assert_eq!((got.method.as_str(), got.target.as_str()), ("POST", "/things?a=b"));
    assert_eq!(got.header("authorization"), Some("Bearer key"));
    assert_eq!(got.header("host"), Some("site.example"));
    assert_eq!(got.body, br#"{"name":"thing"}"#);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_arrives_piece_by_piece_without_a_total_limit() {
    let (next, go_on) = mpsc::channel::<()>();
    let go_on = Mutex::new(go_on);
    let server = HttpServer::start(move |_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n")?;
        go_on.lock().unwrap().recv().unwrap();
        stream.write_all(b"data: 2\n\n")
    });
    let bounds = Bounds { idle: Duration::from_secs(60), total: None, body: u64::MAX };
    let mut answer = playing(server.address()).send(within("http://site.example/", bounds)).await.unwrap();
    assert_eq!(&*answer.chunk().await.unwrap().unwrap(), b"data: 1\n\n");
    next.send(()).unwrap();
    assert_eq!(&*answer.chunk().await.unwrap().unwrap(), b"data: 2\n\n");
    assert_eq!(answer.chunk().await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_response_closes_its_connection() {
    let (closed, is_closed) = mpsc::channel::<()>();
    let server = HttpServer::start(move |_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nbegin")?;
        // Returns when the other side has closed the connection.
        let _ = stream.read(&mut [0]);
        closed.send(()).map_err(std::io::Error::other)
    });
    let mut answer = playing(server.address()).send(get("http://site.example/")).await.unwrap();
    answer.chunk().await.unwrap();
    drop(answer);
    let seen = tokio::task::spawn_blocking(move || is_closed.recv_timeout(Duration::from_secs(30))).await;
    assert!(seen.unwrap().is_ok(), "the connection stays open");
}
