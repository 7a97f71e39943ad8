//! Free TCP ports on the loopback interface.

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};

/// Below the range from which kernels take the local ports of outgoing connections, so that a stopped server
/// finds its port free again when it is restarted.
const RANGE: std::ops::Range<u16> = 15_000..32_000;

/// A port on 127.0.0.1 that nobody listened on a moment ago. The start is random, so that test processes that run
/// beside each other rarely meet; whoever starts a server on it still has to be ready for a lost race.
pub fn free() -> anyhow::Result<u16> {
    let width = RANGE.end - RANGE.start;
    let random = RandomState::new().hash_one(std::process::id());
    let offset = u16::try_from(random % u64::from(width))?;
    (0..width)
        .map(|step| RANGE.start + (offset + step) % width)
        .find(|port| is_free(*port))
        .ok_or_else(|| anyhow::anyhow!("every port from {} to {} is in use", RANGE.start, RANGE.end))
}

/// Whether 127.0.0.1:`port` can be listened on now.
pub fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}
