use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use anyhow::Context;
use local_servers::port;

use super::print_status;

const DEFAULT: u16 = 8080;

/// Chooses `asked` (any free port if it is 0). If it is None, chooses the default port, or any free port if that is in use.
pub(super) fn choose(asked: Option<u16>) -> anyhow::Result<SocketAddr> {
    let port = match asked {
        Some(0) => port::free()?,
        Some(asked) => {
            TcpListener::bind((Ipv4Addr::LOCALHOST, asked)).with_context(|| {
                format!(
                    "cannot use port {asked}: stop the program that listens there, or choose another one with --port"
                )
            })?;
            asked
        }
        None if port::is_free(DEFAULT) => DEFAULT,
        None => {
            let free = port::free()?;
            print_status(&format!("port {DEFAULT} is in use, so the API listens on port {free}"))?;
            free
        }
    };
    Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
}
