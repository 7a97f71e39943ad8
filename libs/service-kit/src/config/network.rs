use std::net::IpAddr;
use std::str::FromStr;

/// CIDR notation (RFC 4632, RFC 4291). A single address is a network of one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an address or a network such as 10.0.0.0/8")]
pub struct InvalidNetwork;

impl Network {
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let (network, bits) = number(self.address);
        let (address, bits_of_address) = number(address.to_canonical());
        let rest = bits - self.prefix;
        bits == bits_of_address && network.checked_shr(rest) == address.checked_shr(rest)
    }
}

impl FromStr for Network {
    type Err = InvalidNetwork;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (address, prefix) = text.split_once('/').map_or((text, None), |(a, p)| (a, Some(p)));
        let address: IpAddr = address.parse().map_err(|_| InvalidNetwork)?;
        let (_, bits) = number(address);
        let prefix = prefix.map_or(Ok(bits), |prefix| prefix.parse().map_err(|_| InvalidNetwork))?;
        if prefix > bits { Err(InvalidNetwork) } else { Ok(Network { address, prefix }) }
    }
}

/// The address, and its length in bits.
fn number(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(address) => (u32::from(address).into(), 32),
        IpAddr::V6(address) => (address.into(), 128),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_contains_the_addresses_with_its_prefix() {
        for (network, address, expected) in [
            ("10.0.0.0/8", "10.255.1.2", true),
            ("10.0.0.0/8", "11.0.0.0", false),
            ("10.0.0.0/8", "::ffff:10.1.2.3", true),
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("::/0", "2001:db8::1", true),
            ("2001:db8::/32", "2001:db8:ffff::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
        ] {
            let contains = network.parse::<Network>().unwrap().contains(address.parse().unwrap());
            assert_eq!(contains, expected, "{network} {address}");
        }
        for text in ["", "10.0.0.0/33", "10.0.0/8", "::/129", "10.0.0.0/", "localhost", "10.0.0.0/-1"] {
            assert_eq!(text.parse::<Network>(), Err(InvalidNetwork), "{text}");
        }
    }
}
