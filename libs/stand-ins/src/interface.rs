//! Network interface on which stand-ins listen, and the host in their URLs. Stand-ins use the loopback interface unless
//! [`serve_as`] was called.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::OnceLock;

static HOST: OnceLock<String> = OnceLock::new();

/// Sets the host of the stand-ins that this process starts from now on: their URLs contain `host`, and they listen on all
/// interfaces. Only the first call has an effect.
pub fn serve_as(host: &str) {
    HOST.get_or_init(|| host.to_owned());
}

/// Host in the URLs of stand-ins without TLS.
#[must_use]
pub fn host() -> &'static str {
    HOST.get().map_or("127.0.0.1", String::as_str)
}

/// Host in the URLs of stand-ins with TLS. It is a name, because the certificates of stand-ins contain this name.
pub(crate) fn tls_host() -> &'static str {
    HOST.get().map_or("localhost", String::as_str)
}

/// IP address on which stand-ins listen.
pub(crate) fn ip() -> IpAddr {
    IpAddr::V4(if HOST.get().is_some() { Ipv4Addr::UNSPECIFIED } else { Ipv4Addr::LOCALHOST })
}
