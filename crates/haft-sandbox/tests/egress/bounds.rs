//! Servers that send too much, too slowly, or not what they announced.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use super::*;
use haft_sandbox::egress::{MAX_PER_HOST, header};
use haft_testing::http::{HttpServer, bomb, response};

#[tokio::test]
async fn a_decompression_bomb_stops_at_the_limit() {
    let bomb = bomb(1000);
    assert!(bomb.len() < 1_100_000, "{}", bomb.len());
    let server = HttpServer::fixed(response("200 OK", &[("Content-Encoding", "gzip")], bomb));
    let mut answer = playing(server.address()).send(get("http://site.example/")).await.unwrap();
    let mut read = 0;
    let stopped = loop {
        match answer.chunk().await {
            Ok(Some(chunk)) => read += chunk.len(),
            Ok(None) => panic!("the body ended after {read} bytes"),
            Err(error) => break error,
        }
    };
    assert!(matches!(stopped, EgressError::TooLarge { limit: 10_485_760, .. }), "{stopped}");
    assert!(read <= 10_485_760 && read > 9_000_000, "{read}");
}

#[tokio::test]
async fn a_flood_of_headers_is_an_error() {
    for (name, line) in
        [("many", "X-A: b\r\n".repeat(5_000)), ("long", format!("X-A: {}\r\n", "b".repeat(50_000_000)))]
    {
        let server = HttpServer::start(move |_, stream| {
            stream.write_all(b"HTTP/1.1 200 OK\r\n")?;
            stream.write_all(line.as_bytes())?;
            stream.write_all(b"\r\n")
        });
        let failed = body(&playing(server.address()), "http://site.example/").await.unwrap_err();
        assert!(matches!(failed, EgressError::Protocol { .. }), "{name}: {failed}");
    }
}

#[tokio::test]
async fn a_body_shorter_than_announced_is_an_error_and_a_longer_one_ends_there() {
    let short = HttpServer::fixed("HTTP/1.1 200 OK\r\nContent-Length: 50\r\nConnection: close\r\n\r\nshort");
    let failed = body(&playing(short.address()), "http://site.example/").await.unwrap_err();
    assert!(matches!(failed, EgressError::Protocol { .. }), "{failed}");
    let long = HttpServer::fixed(
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nlonger than that",
    );
    assert_eq!(body(&playing(long.address()), "http://site.example/").await.unwrap(), "longe");
}

#[tokio::test]
async fn what_is_not_http_is_an_error() {
    let server = HttpServer::fixed("SSH-2.0-OpenSSH_9.2\r\n");
    let failed = body(&playing(server.address()), "http://site.example/").await.unwrap_err();
    assert!(matches!(failed, EgressError::Protocol { .. }), "{failed}");
}

#[tokio::test]
async fn a_silent_server_is_given_up() {
    let server = HttpServer::start(|_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nbegin")?;
        stream.read(&mut [0]).map(drop)
    });
    let egress = playing(server.address());
    let mut answer = egress.send(within("http://site.example/", tight())).await.unwrap();
    assert_eq!(&*answer.chunk().await.unwrap().unwrap(), b"begin");
    let failed = answer.chunk().await.unwrap_err();
    assert!(matches!(failed, EgressError::Timeout { what: "has stopped sending", .. }), "{failed}");

    let mute = HttpServer::start(|_, stream| stream.read(&mut [0]).map(drop));
    let failed = playing(mute.address()).send(within("http://site.example/", tight())).await.unwrap_err();
    assert!(matches!(failed, EgressError::Timeout { what: "does not answer", .. }), "{failed}");
}

#[tokio::test]
async fn a_dripping_body_ends_with_the_total_time() {
    let server = HttpServer::start(|_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
        loop {
            stream.write_all(b"x")?;
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let bounds = Bounds { total: Some(Duration::from_millis(700)), ..tight() };
    let answer = playing(server.address()).send(within("http://site.example/", bounds)).await.unwrap();
    let failed = answer.bytes().await.unwrap_err();
    assert!(matches!(failed, EgressError::Timeout { what: "has not sent everything", .. }), "{failed}");
}

#[tokio::test]
async fn an_endless_body_stops_at_the_limit() {
    let server = HttpServer::start(|_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
        loop {
            stream.write_all(&[b'x'; 4096])?;
        }
    });
    let answer = playing(server.address()).send(within("http://site.example/", tight())).await.unwrap();
    assert!(matches!(answer.bytes().await.unwrap_err(), EgressError::TooLarge { limit: 100_000, .. }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_requests_to_a_slow_server_keep_to_its_share_and_starve_no_other() {
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let highest = most.clone();
    let slow = HttpServer::start(move |_, stream| {
        highest.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        // Each request is answered once the test says so.
        let _ = released.lock().unwrap().recv();
        now.fetch_sub(1, Ordering::SeqCst);
        stream.write_all(&response("200 OK", &[], "slow"))
    });
    let quick = HttpServer::fixed(response("200 OK", &[], "quick"));
    let names = Names::default().with("slow.example", &[&[PUBLIC]]).with("quick.example", &[&[OTHER]]);
    let stand_ins = StandIns::new()
        .server(PUBLIC.parse().unwrap(), slow.address())
        .server(OTHER.parse().unwrap(), quick.address());
    let egress = with_names(names, stand_ins);
    let waiting: Vec<_> = (0..100)
        .map(|_| {
            let egress = egress.clone();
            tokio::spawn(async move { body(&egress, "http://slow.example/").await })
        })
        .collect();
    while slow.connections() < MAX_PER_HOST {
        tokio::task::yield_now().await;
    }
    for _ in 0..20 {
        assert_eq!(body(&egress, "http://quick.example/").await.unwrap(), "quick");
    }
    assert_eq!(slow.connections(), MAX_PER_HOST);
    drop(release);
    for answer in waiting {
        assert_eq!(answer.await.unwrap().unwrap(), "slow");
    }
    assert!(most.load(Ordering::SeqCst) <= MAX_PER_HOST, "{most:?}");
}

#[tokio::test]
async fn compressed_text_arrives_decompressed() {
    let mut packed = haft_testing::http::bomb(1);
    // The end that a bomb lacks: an empty last block, the checksum and the length of a megabyte of zeros.
    packed.extend_from_slice(&[3, 0]);
    packed.extend_from_slice(&0xa738_ea1c_u32.to_le_bytes());
    packed.extend_from_slice(&(1_u32 << 20).to_le_bytes());
    let server = HttpServer::fixed(response("200 OK", &[("Content-Encoding", "gzip")], packed));
    let answer = playing(server.address()).send(get("http://site.example/")).await.unwrap();
    assert_eq!(answer.bytes().await.unwrap(), vec![0; 1 << 20]);
    assert!(server.received()[0].header(header::ACCEPT_ENCODING.as_str()).unwrap().contains("gzip"));
}
