//! Whether this machine has a way to public addresses at all.

use std::net::UdpSocket;

/// Whether the kernel knows a route to public addresses. Sends nothing: a datagram socket that is connected only looks the
/// route up.
#[allow(clippy::disallowed_methods)] // the lint sends all other crates here
pub fn has_public_route() -> bool {
    let is_routed =
        |from: &str, to: &str| UdpSocket::bind(from).and_then(|socket| socket.connect(to)).is_ok();
    is_routed("0.0.0.0:0", "8.8.8.8:53") || is_routed("[::]:0", "[2001:4860:4860::8888]:53")
}
