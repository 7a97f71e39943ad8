//! The network address of a client, to which the use of resources is charged.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// Length of the IPv6 prefix that one customer usually gets, in bits (RFC 6177). The customer chooses the remaining bits.
const IPV6_PREFIX: u32 = 64;

/// An IPv4 address, or an IPv6 network with a prefix of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Peer(IpAddr);

/// Writes the IPv4 address, or the first address of the IPv6 network.
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

    /// Returns the IPv4 address, or the first address of the IPv6 network.
    pub fn address(self) -> IpAddr {
        self.0
    }
}
