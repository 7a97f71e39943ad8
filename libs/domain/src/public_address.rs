//! Addresses of the public internet. Apps may not make Tidings call other addresses, unless the operator allows it.

use std::error::Error;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

/// A host that must not be called.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{host} is not a public address; set outbound.allow_private to call it")]
pub struct ForbiddenHost {
    /// The host as configured.
    pub host: String,
}

impl ForbiddenHost {
    /// Finds this error in an error or in its causes. If a name resolves to forbidden addresses, the HTTP client wraps this
    /// error in its own error.
    #[must_use]
    pub fn among<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a ForbiddenHost> {
        std::iter::successors(Some(error), |error| (**error).source()).find_map(|cause| {
            // `source` of an I/O error skips the wrapped error itself, so look at the wrapped error first.
            let carried = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
            cause.downcast_ref().or_else(|| carried?.downcast_ref())
        })
    }
}

/// Checks the host of a URL if it is an address. A name is checked when it is resolved.
///
/// # Errors
/// Returns an error if the address is not public.
pub fn check_host(url: &Url) -> Result<(), ForbiddenHost> {
    let address = match url.host() {
        Some(Host::Ipv4(address)) => IpAddr::V4(address),
        Some(Host::Ipv6(address)) => IpAddr::V6(address),
        Some(Host::Domain(_)) | None => return Ok(()),
    };
    if is_public(address) { Ok(()) } else { Err(ForbiddenHost { host: address.to_string() }) }
}

/// Returns true if an address is reached over the public internet (RFC 6890 and its registries).
#[must_use]
pub fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_broadcast()
        || address.is_documentation()
        || address.is_multicast()
        // In this order: "this network"; shared address space of carriers; protocol assignments; benchmarking; reserved.
        || a == 0
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (b == 18 || b == 19))
        || a >= 240;
    !is_special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    // Global unicast without documentation addresses and without 6to4 and Teredo, whose embedded IPv4 address is not checked.
    // NAT64 (64:ff9b::/96) is outside of global unicast.
    let is_global = (0x2000..0x4000).contains(&first);
    let is_special =
        (first == 0x2001 && (second == 0xdb8 || second == 0)) || first == 0x2002 || first == 0x3fff;
    is_global && !is_special
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_public_internet_are_public() {
        for public in ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "::ffff:8.8.8.8"] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        for special in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "192.0.0.8",
            "192.0.2.1",
            "192.168.0.1",
            "198.18.0.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "64:ff9b::7f00:1",
            "2001:db8::1",
            "2001::1",
            "2002:7f00:1::",
            "fc00::1",
            "fe80::1",
            "ff02::1",
        ] {
            assert!(!is_public(special.parse().unwrap()), "{special}");
        }
    }
}
