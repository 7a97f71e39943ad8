//! Passwords of private servers. Without one, every account of the machine could connect to the server.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::Context;

/// Creates a password of 48 hexadecimal digits if the file is missing or empty. Only the file's owner can read it.
pub(crate) fn read_or_create(path: &Path) -> anyhow::Result<String> {
    match std::fs::read_to_string(path) {
        Ok(password) if !password.is_empty() => return Ok(password),
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
    let password = new()?;
    write(path, &password)?;
    Ok(password)
}

pub(crate) fn new() -> std::io::Result<String> {
    let mut random = [0_u8; 24];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Creates a missing file with mode 0600.
pub(crate) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
}
