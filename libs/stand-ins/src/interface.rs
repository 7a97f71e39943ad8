//! The interface that stand-ins listen on, and the host that their addresses name: the loopback interface, unless other hosts are
//! to reach them.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::OnceLock;

static HOST: OnceLock<String> = OnceLock::new();

/// Has every stand-in of this process that starts from now on listen on all interfaces and call itself `host`. Only the first call
/// has an effect.
pub fn serve_as(host: &str) {
    HOST.get_or_init(|| host.to_owned());
}

/// The host that addresses of stand-ins name.
#[must_use]
pub fn host() -> &'static str {
    HOST.get().map_or("127.0.0.1", String::as_str)
}

/// The same for TLS, whose certificate is for a name.
pub(crate) fn tls_host() -> &'static str {
    HOST.get().map_or("localhost", String::as_str)
}

/// The address to listen on.
pub(crate) fn ip() -> IpAddr {
    IpAddr::V4(if HOST.get().is_some() { Ipv4Addr::UNSPECIFIED } else { Ipv4Addr::LOCALHOST })
}
