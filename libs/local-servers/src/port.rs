//! Free TCP ports on the loopback interface.

use std::fs::{File, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Mutex, PoisonError};

/// Below the range from which kernels take the local ports of outgoing connections, so that a stopped server
/// finds its port free again when it is restarted.
const RANGE: std::ops::Range<u16> = 15_000..32_000;

/// The locks by which this process holds the ports that it was given.
static CLAIMED: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// A port on 127.0.0.1 on which nothing listens, and which no other process gets from here until this one ends: between this
/// call and the server's start on the port, seconds may pass. A program of others can still take it.
///
/// # Errors
/// Every port is in use, or no file can be written to the directory for temporary files.
pub fn free() -> anyhow::Result<u16> {
    let width = RANGE.end - RANGE.start;
    let random = RandomState::new().hash_one(std::process::id());
    let offset = u16::try_from(random % u64::from(width))?;
    for step in 0..width {
        let port = RANGE.start + (offset + step) % width;
        if is_free(port) && claim(port)? {
            return Ok(port);
        }
    }
    anyhow::bail!("every port from {} to {} is in use", RANGE.start, RANGE.end)
}

/// Locks the port's file until this process ends; false if another call has it.
fn claim(port: u16) -> anyhow::Result<bool> {
    let directory =
        std::env::temp_dir().join(format!("tidings-ports-{}", rustix::process::getuid().as_raw()));
    std::fs::create_dir_all(&directory)?;
    let file = File::create(directory.join(port.to_string()))?;
    match file.try_lock() {
        Ok(()) => CLAIMED.lock().unwrap_or_else(PoisonError::into_inner).push(file),
        Err(TryLockError::WouldBlock) => return Ok(false),
        Err(TryLockError::Error(error)) => return Err(error.into()),
    }
    Ok(true)
}

/// Returns true if 127.0.0.1:`port` can be listened on now.
pub fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}
