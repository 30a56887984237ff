//! Judges network addresses: which are public, and which private ones the user has allowed. Works on parsed addresses, so
//! that every spelling of an address gets the same verdict. Resolves nothing.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Which addresses an [`Egress`](super::Egress) connects to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Public addresses, and the private ones that the user has allowed.
    Public {
        /// The allowed private networks and hosts.
        and: Vec<Private>,
    },
    /// Every address: for servers that the user has configured one by one.
    Anywhere,
}

impl Default for Reach {
    fn default() -> Self {
        Reach::Public { and: Vec::new() }
    }
}

/// A private network or host that the user has allowed.
///
/// ```
/// use haft_sandbox::egress::Private;
///
/// let lan: Private = "10.0.0.0/8".parse()?;
/// let docker: Private = "host.docker.internal".parse()?;
/// assert_ne!(lan, docker);
/// assert!("10.0.0.0/33".parse::<Private>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Private {
    /// The addresses whose first `bits` bits are those of `address`.
    Network {
        /// An address of the network.
        address: IpAddr,
        /// The length of the prefix.
        bits: u8,
    },
    /// A host by its name, in lower case and without a final dot, whatever its addresses are.
    Host(String),
}

impl FromStr for Private {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("`{text}` is no network or host: {why}");
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let bare = address.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(address);
        match (bare.parse::<IpAddr>(), bits) {
            (Ok(address), bits) => {
                let longest = if address.is_ipv4() { 32 } else { 128 };
                let bits = match bits {
                    None => longest,
                    Some(bits) => {
                        bits.parse().map_err(|_| wrong("what follows the slash is no number of bits"))?
                    }
                };
                match bits <= longest {
                    true => Ok(Private::Network { address, bits }),
                    false => Err(wrong("the prefix is longer than the address")),
                }
            }
            (Err(_), Some(_)) => Err(wrong("write a network as `10.0.0.0/8`")),
            (Err(_), None) => {
                let host = plain_host(text);
                let is_label = |label: &str| {
                    !label.is_empty()
                        && label.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
                };
                match host.split('.').all(is_label) && !host.bytes().all(|b| b.is_ascii_digit() || b == b'.')
                {
                    true => Ok(Private::Host(host)),
                    false => Err(wrong("write a network as `10.0.0.0/8`, or a host as `wiki.example.org`")),
                }
            }
        }
    }
}

impl fmt::Display for Private {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Private::Network { address, bits } => write!(f, "{address}/{bits}"),
            Private::Host(host) => f.write_str(host),
        }
    }
}

/// A host in the form in which hosts are compared: lower case, without a final dot.
pub fn plain_host(host: &str) -> String {
    host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
}

impl Reach {
    /// Whether a host is allowed by its name, so that its addresses do not matter.
    pub fn names(&self, host: &str) -> bool {
        let host = plain_host(host);
        match self {
            Reach::Anywhere => true,
            Reach::Public { and } => and.iter().any(|allowed| *allowed == Private::Host(host.clone())),
        }
    }

    /// Judges an address; the error says what kind of address it is.
    pub fn judge(&self, address: IpAddr) -> Result<(), &'static str> {
        match self {
            Reach::Anywhere => Ok(()),
            Reach::Public { and } if and.iter().any(|allowed| allowed.contains(address)) => Ok(()),
            Reach::Public { .. } => private_kind(address).map_or(Ok(()), Err),
        }
    }
}

impl Private {
    /// Whether a network has an address.
    pub(super) fn contains(&self, address: IpAddr) -> bool {
        let Private::Network { address: network, bits } = self else { return false };
        // An IPv4 address inside of an IPv6 one is the same host.
        let address = embedded(address).filter(|_| network.is_ipv4()).map_or(address, IpAddr::V4);
        match (network, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let differing = u32::from(*network) ^ u32::from(address);
                *bits == 0 || differing.leading_zeros() >= u32::from(*bits)
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let differing = u128::from(*network) ^ u128::from(address);
                *bits == 0 || differing.leading_zeros() >= u32::from(*bits)
            }
            _ => false,
        }
    }
}

/// IPv4 networks that are not public, with their kind.
const NOT_PUBLIC: [(Ipv4Addr, u8, &str); 16] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8, "an address of this machine"),
    (Ipv4Addr::new(10, 0, 0, 0), 8, "a private network"),
    (Ipv4Addr::new(100, 64, 0, 0), 10, "a carrier's private network"),
    (Ipv4Addr::new(127, 0, 0, 0), 8, "this machine"),
    // The metadata services of clouds are here, too.
    (Ipv4Addr::new(169, 254, 0, 0), 16, "a link-local address"),
    // A service of Azure for its own machines, in the middle of public addresses.
    (Ipv4Addr::new(168, 63, 129, 16), 32, "a service of the cloud this machine may run in"),
    (Ipv4Addr::new(172, 16, 0, 0), 12, "a private network"),
    (Ipv4Addr::new(192, 0, 0, 0), 24, "a reserved network"),
    (Ipv4Addr::new(192, 0, 2, 0), 24, "a network for documentation"),
    (Ipv4Addr::new(192, 88, 99, 0), 24, "a reserved network"),
    (Ipv4Addr::new(192, 168, 0, 0), 16, "a private network"),
    (Ipv4Addr::new(198, 18, 0, 0), 15, "a network for benchmarks"),
    (Ipv4Addr::new(198, 51, 100, 0), 24, "a network for documentation"),
    (Ipv4Addr::new(203, 0, 113, 0), 24, "a network for documentation"),
    (Ipv4Addr::new(224, 0, 0, 0), 4, "a multicast address"),
    (Ipv4Addr::new(240, 0, 0, 0), 4, "a reserved network"),
];

/// What kind of address it is, unless it is public.
fn private_kind(address: IpAddr) -> Option<&'static str> {
    if let Some(inner) = embedded(address) {
        let is_within = |network: &(Ipv4Addr, u8, &str)| {
            let (start, bits, _) = *network;
            Private::Network { address: start.into(), bits }.contains(inner.into())
        };
        return NOT_PUBLIC.iter().find(|network| is_within(network)).map(|(_, _, kind)| *kind);
    }
    let IpAddr::V6(address) = address else { return Some("an address of an unknown kind") };
    // Only 2000::/3 is assigned to the public, so no list of private networks has to be complete.
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => Some("this machine"),
        [0xfe80..=0xfebf, ..] => Some("a link-local address"),
        [0xfc00..=0xfdff, ..] => Some("a private network"),
        [0xff00..=0xffff, ..] => Some("a multicast address"),
        // Teredo and other special uses.
        [0x2001, 0..=0x01ff, ..] => Some("a reserved network"),
        [0x2001, 0x0db8, ..] | [0x3fff, 0..=0x0fff, ..] => Some("a network for documentation"),
        [0x2000..=0x3fff, ..] => None,
        _ => Some("an address that is not public"),
    }
}

/// The IPv4 address that an address is, contains or is translated to (NAT64, 6to4).
fn embedded(address: IpAddr) -> Option<Ipv4Addr> {
    let tail = |address: Ipv6Addr| {
        let [.., a, b, c, d] = address.octets();
        Ipv4Addr::new(a, b, c, d)
    };
    match address {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(address) => match address.segments() {
            [0, 0, 0, 0, 0, 0xffff, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => Some(tail(address)),
            [0x2002, high, low, ..] => {
                let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
                Some(Ipv4Addr::new(a, b, c, d))
            }
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_public(address: &str) -> bool {
        Reach::default().judge(address.parse().unwrap()).is_ok()
    }

    #[test]
    fn private_addresses_of_every_kind_are_refused() {
        for address in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "100.100.100.200",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "168.63.129.16",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.9",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:a9fe:a9fe",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "fe80::1",
            "fc00::1",
            "fd00:ec2::254",
            "ff02::1",
            "2001::1",
            "2001:0:53aa:64c::1",
            "2001:db8::1",
            "3fff::1",
            "2002:7f00:1::1",
            "2002:a00:1::1",
            "100::1",
            "::127.0.0.1",
            "fec0::1",
            "4000::1",
        ] {
            assert!(!is_public(address), "{address}");
        }
    }

    #[test]
    fn public_addresses_pass() {
        for address in [
            "8.8.8.8",
            "1.1.1.1",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "168.63.129.15",
            "198.17.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00:1450:4001::1",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2002:808:808::1",
            "2001:200::1",
        ] {
            assert!(is_public(address), "{address}");
        }
    }

    #[test]
    fn allowed_networks_and_hosts_pass_and_nothing_beside_them() {
        let and = ["10.1.0.0/16", "fd00::/8", "192.168.7.7", "Wiki.Example.Org."];
        let reach = Reach::Public { and: and.iter().map(|text| text.parse().unwrap()).collect() };
        for address in ["10.1.255.1", "::ffff:10.1.0.1", "fd12::1", "192.168.7.7", "8.8.8.8"] {
            assert!(reach.judge(address.parse().unwrap()).is_ok(), "{address}");
        }
        for address in ["10.2.0.1", "::ffff:10.2.0.1", "fc00::1", "192.168.7.8", "127.0.0.1"] {
            assert!(reach.judge(address.parse().unwrap()).is_err(), "{address}");
        }
        assert!(reach.names("wiki.example.org") && reach.names("WIKI.example.org."));
        assert!(!reach.names("example.org") && !reach.names("a.wiki.example.org"));
    }

    #[test]
    fn what_is_no_network_and_no_host_is_refused() {
        for text in
            ["", "/8", "10.0.0.0/", "10.0.0.0/33", "::/129", "10.0.0", "a b", "http://x", "*.x.org", "x/8"]
        {
            assert!(text.parse::<Private>().is_err(), "{text}");
        }
    }
}
