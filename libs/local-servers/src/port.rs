use std::fs::{File, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Mutex, PoisonError};

/// Ports that stay free: kernels use higher ports for outgoing connections, so the port of a stopped server is still free when the server
/// is restarted.
const RANGE: std::ops::Range<u16> = 15_000..32_000;

static CLAIMED: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// Returns a free port on 127.0.0.1, and reserves it until this process ends, because a server may start to listen only seconds later. A
/// program that does not call this function may still use the port.
pub fn free() -> anyhow::Result<u16> {
    let width = RANGE.end - RANGE.start;
    let random = RandomState::new().hash_one(std::process::id());
    let offset = u16::try_from(random % u64::from(width))?;
    for step in 0..width {
        let port = RANGE.start + (offset + step) % width;
        if reserve(port)? {
            return Ok(port);
        }
    }
    anyhow::bail!("every port from {} to {} is in use", RANGE.start, RANGE.end)
}

/// Reserves a port that an earlier process got from [`free`]. Returns false if a program or another process has it now.
pub fn reserve(port: u16) -> anyhow::Result<bool> {
    Ok(is_free(port) && claim(port)?)
}

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

pub fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}
