//! The directory of a server: one instance at a time.

use std::fs::{File, Permissions, TryLockError};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};

use crate::waiting::within;

/// Limit for the processes of a killed predecessor to end.
const FREE_WITHIN: Duration = Duration::from_secs(5);

/// A directory that is ours alone. The claim is a lock on its open descriptor, which the servers in it inherit: it
/// lasts until we and the last of them are gone, however we end.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    descriptor: Arc<File>,
}

impl Directory {
    /// Claims `path`, created if need be, and closes it to others. Fails after 5 s if another process holds it.
    pub(crate) async fn claim(path: &Path) -> anyhow::Result<Self> {
        let path = std::path::absolute(path)?;
        std::fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
        let descriptor = lock(&path).await?;
        descriptor
            .set_permissions(Permissions::from_mode(0o700))
            .with_context(|| format!("cannot close {} to others", path.display()))?;
        Ok(Self { path, descriptor })
    }

    /// Gives it up and claims it again, once the servers that were killed in it are gone.
    pub(crate) async fn reclaim(&mut self) -> anyhow::Result<()> {
        self.descriptor = Arc::new(File::open(&self.path)?);
        self.descriptor = lock(&self.path).await?;
        Ok(())
    }

    /// The absolute path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The open descriptor, to hand to a server.
    pub(crate) fn descriptor(&self) -> Arc<File> {
        Arc::clone(&self.descriptor)
    }
}

async fn lock(path: &Path) -> anyhow::Result<Arc<File>> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let locked = within(FREE_WITHIN, async || match file.try_lock() {
        Ok(()) => Some(Ok(())),
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Error(error)) => Some(Err(error)),
    });
    match locked.await {
        Some(Ok(())) => Ok(Arc::new(file)),
        Some(Err(error)) => Err(error).with_context(|| format!("cannot lock {}", path.display())),
        None => bail!(
            "another running instance uses {}: stop it first, or choose another data directory",
            path.display()
        ),
    }
}
