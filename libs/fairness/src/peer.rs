use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// Bits that one customer usually gets (RFC 6177); the customer chooses the others.
const IPV6_PREFIX: u32 = 64;

/// An IPv4 address, or an IPv6 network with a prefix of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Peer(IpAddr);

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Peer {
    pub fn of(address: IpAddr) -> Peer {
        match address.to_canonical() {
            IpAddr::V6(address) => {
                let network = u128::from(address) >> (128 - IPV6_PREFIX) << (128 - IPV6_PREFIX);
                Peer(IpAddr::V6(Ipv6Addr::from(network)))
            }
            address => Peer(address),
        }
    }

    /// Returns the network of the peer, without the part that may identify a person.
    pub fn network(self) -> String {
        match self.0 {
            IpAddr::V4(address) => {
                let [one, two, three, _] = address.octets();
                format!("{one}.{two}.{three}.x")
            }
            IpAddr::V6(address) => {
                let [one, two, three, ..] = address.segments();
                format!("{one:x}:{two:x}:{three:x}::/48")
            }
        }
    }

    /// First address of an IPv6 network.
    pub fn address(self) -> IpAddr {
        self.0
    }
}
