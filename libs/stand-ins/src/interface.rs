use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::OnceLock;

use hyper::header::{HOST as HOST_HEADER, HeaderMap};

static HOST: OnceLock<String> = OnceLock::new();
static IP: OnceLock<IpAddr> = OnceLock::new();

/// Sets the host of the stand-ins that this process starts from now on: their URLs contain `host`, and they listen on all
/// interfaces. Only the first call has an effect.
pub fn serve_as(host: &str) {
    HOST.get_or_init(|| host.to_owned());
}

/// Sets the address on which the stand-ins of this process listen from now on; their URLs stay the same. Only the first call has an
/// effect.
pub fn listen_on(ip: IpAddr) {
    IP.get_or_init(|| ip);
}

/// Host in the URLs of stand-ins without TLS.
#[must_use]
pub fn host() -> &'static str {
    HOST.get().map_or("127.0.0.1", String::as_str)
}

pub const FOREIGN_HOST: &str =
    "This page answers only requests that name it localhost, an IP address, or the host of `tidings up`.\n";

/// Returns true if the `Host` of a request is localhost, an IP address or [`host`]. A page of another site can reach this machine by
/// a name of its own that resolves to it (DNS rebinding).
#[must_use]
pub fn is_own_host(headers: &HeaderMap) -> bool {
    let own = headers.get(HOST_HEADER).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (name, port) = match own.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, port),
        _ => (own, "0"),
    };
    let is_address = match name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(inner) => inner.parse::<Ipv6Addr>().is_ok(),
        None => name.parse::<Ipv4Addr>().is_ok(),
    };
    port.parse::<u16>().is_ok()
        && (is_address || name.eq_ignore_ascii_case("localhost") || name.eq_ignore_ascii_case(host()))
}

/// Host in the URLs of stand-ins with TLS. It is a name, because the certificates of stand-ins contain this name.
pub(crate) fn tls_host() -> &'static str {
    HOST.get().map_or("localhost", String::as_str)
}

pub(crate) fn ip() -> IpAddr {
    let default = if HOST.get().is_some() { Ipv4Addr::UNSPECIFIED } else { Ipv4Addr::LOCALHOST };
    IP.get().copied().unwrap_or(IpAddr::V4(default))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_local_names_and_addresses_are_own_hosts() {
        let is_own = |host: &str| is_own_host(&HeaderMap::from_iter([(HOST_HEADER, host.parse().unwrap())]));
        for own in ["localhost", "LocalHost:8025", "127.0.0.1", "127.0.0.1:8025", "[::1]", "[::1]:8025"] {
            assert!(is_own(own), "{own}");
        }
        for foreign in [
            "",
            "example.com",
            "localhost.example.com",
            "127.0.0.1.example.com:8025",
            "example.com:[::1]",
            "::1",
        ] {
            assert!(!is_own(foreign), "{foreign}");
        }
        assert!(!is_own_host(&HeaderMap::new()));
    }
}
