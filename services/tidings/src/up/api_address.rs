//! Where the API of `tidings up` listens.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use anyhow::Context;
use local_servers::port;

use super::say;

const DEFAULT: u16 = 8080;

/// An address on the loopback interface, free a moment ago. The port is `asked`, where 0 means any; by default the
/// usual one, or any where that is taken.
pub(super) fn choose(asked: Option<u16>) -> anyhow::Result<SocketAddr> {
    let port = match asked {
        Some(0) => port::free()?,
        Some(asked) => {
            TcpListener::bind((Ipv4Addr::LOCALHOST, asked)).with_context(|| {
                format!(
                    "port {asked} cannot be used: stop what listens there, or choose another one with --port"
                )
            })?;
            asked
        }
        None if port::is_free(DEFAULT) => DEFAULT,
        None => {
            let free = port::free()?;
            say(&format!("port {DEFAULT} is taken, so the API listens on port {free}"))?;
            free
        }
    };
    Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
}
