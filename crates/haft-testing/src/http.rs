//! A web server on loopback for tests: it answers each request with the bytes that a test writes, however wrong they
//! are, and remembers what it was asked.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rcgen::{CertificateParams, CertifiedIssuer, KeyPair, date_time_ymd};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// A request that a server got.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// The method.
    pub method: String,
    /// The target as it was sent: a path, or a URL at a proxy.
    pub target: String,
    /// The headers, with their names in small letters.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Received {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }
}

/// A connection, with or without TLS.
pub trait Stream: Read + Write {}

impl<T: Read + Write> Stream for T {}

/// A server on loopback. It ends with the process.
pub struct HttpServer {
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// A certificate for names, valid from one year to another, signed by an authority of its own.
pub struct Certificate {
    config: Arc<ServerConfig>,
    authority: Vec<u8>,
}

impl Certificate {
    /// A certificate for these names that is valid now.
    pub fn new(names: &[&str]) -> Self {
        Self::between(names, 2000, 4000)
    }

    /// A certificate for these names that is valid between two years.
    pub fn between(names: &[&str], from: i32, to: i32) -> Self {
        let mut authority = CertificateParams::new(Vec::new()).expect("no names are valid");
        authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let new_key = || KeyPair::generate().expect("there are random numbers");
        let authority = CertifiedIssuer::self_signed(authority, new_key()).expect("keys sign");
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).expect("the names are valid");
        params.not_before = date_time_ymd(from, 1, 1);
        params.not_after = date_time_ymd(to, 1, 1);
        let key = new_key();
        let certificate = params.signed_by(&key, &authority).expect("keys sign");
        let chain = vec![CertificateDer::from(certificate.der().to_vec())];
        let key = PrivateKeyDer::try_from(key.serialize_der()).expect("the key is one");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config =
            config.expect("the provider has ciphers").with_no_client_auth().with_single_cert(chain, key);
        Self { config: Arc::new(config.expect("the key fits")), authority: authority.der().to_vec() }
    }

    /// The certificate of the authority, in DER.
    pub fn authority(&self) -> Vec<u8> {
        self.authority.clone()
    }
}

#[derive(Default)]
struct Shared {
    received: Mutex<Vec<Received>>,
    connections: AtomicUsize,
}

impl HttpServer {
    /// Starts a server that answers one request a connection by writing to the stream.
    pub fn start(
        answer: impl Fn(&Received, &mut dyn Stream) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self::start_raw(move |mut stream, received| {
            let Ok(request) = read_request(&mut stream) else { return };
            received(request.clone());
            // The client may have hung up, which is what some tests are about.
            let _ = answer(&request, &mut stream);
        })
    }

    /// Starts a server that speaks TLS with this certificate.
    pub fn start_tls(
        certificate: &Certificate,
        answer: impl Fn(&Received, &mut dyn Stream) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let config = certificate.config.clone();
        Self::start_raw(move |stream, received| {
            let Ok(connection) = ServerConnection::new(config.clone()) else { return };
            let mut stream = StreamOwned::new(connection, stream);
            let Ok(request) = read_request(&mut stream) else { return };
            received(request.clone());
            let _ = answer(&request, &mut stream);
            stream.conn.send_close_notify();
            let _ = stream.flush();
        })
    }

    /// Starts a server that gets the bare connections, and a function to remember requests with.
    pub fn start_raw(serve: impl Fn(TcpStream, &dyn Fn(Received)) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
        let address = listener.local_addr().expect("the listener has an address");
        let shared = Arc::<Shared>::default();
        let (serve, inside) = (Arc::new(serve), shared.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (serve, inside) = (serve.clone(), inside.clone());
                inside.connections.fetch_add(1, Ordering::SeqCst);
                thread::spawn(move || serve(stream, &|request| inside.lock().push(request)));
            }
        });
        Self { address, shared }
    }

    /// A server that gives every request the same answer.
    pub fn fixed(answer: impl Into<Vec<u8>>) -> Self {
        let answer = answer.into();
        Self::start(move |_, stream| stream.write_all(&answer))
    }

    /// Where the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of a path on this server.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The requests so far.
    pub fn received(&self) -> Vec<Received> {
        self.shared.lock().clone()
    }

    /// How many connections there were so far.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Received>> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A response with a status line such as `200 OK`, headers and a body. Its length and the end of the connection are
/// added.
pub fn response(status: &str, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let mut bytes = format!("HTTP/1.1 {status}\r\n").into_bytes();
    for (name, value) in headers {
        bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    bytes
        .extend_from_slice(format!("Content-Length: {}\r\nConnection: close\r\n\r\n", body.len()).as_bytes());
    bytes.extend_from_slice(body);
    bytes
}

/// Reads one request.
pub fn read_request(stream: &mut (impl Read + ?Sized)) -> io::Result<Received> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head);
    let mut lines = head.lines();
    let mut words = lines.next().unwrap_or_default().split(' ').map(str::to_owned);
    let mut request = Received {
        method: words.next().unwrap_or_default(),
        target: words.next().unwrap_or_default(),
        ..Received::default()
    };
    let split =
        |line: &str| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
    request.headers = lines.filter_map(split).collect();
    let length = request.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    request.body = vec![0; length];
    stream.read_exact(&mut request.body)?;
    Ok(request)
}

/// So many megabytes of zeros, compressed with gzip to about a thousandth. The stream never ends properly: whoever reads it
/// must stop before.
pub fn bomb(megabytes: usize) -> Vec<u8> {
    let mut piece = Vec::with_capacity(16 * 1024);
    let zeros = vec![0; 1024 * 1024];
    // A full flush forgets what came before, so that the piece can be repeated.
    flate2::Compress::new(flate2::Compression::best(), false)
        .compress_vec(&zeros, &mut piece, flate2::FlushCompress::Full)
        .expect("zeros can be compressed");
    let header = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
    [&header[..], &piece.repeat(megabytes)].concat()
}
