use std::fs::{File, Permissions, TryLockError};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};

use crate::waiting::within;

/// The processes of a killed instance may need a moment to end and release it.
const FREE_WITHIN: Duration = Duration::from_secs(5);

/// A directory that this process has locked. The lock belongs to the open descriptor, which the servers in the directory inherit.
/// So the lock lasts until this process and all of these servers have ended, even if they are killed.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    descriptor: Arc<File>,
}

impl Directory {
    /// Locks the directory and makes it private to this account (mode 0700). Fails if another instance still holds the lock after 5 s.
    pub(crate) async fn claim(path: &Path) -> anyhow::Result<Self> {
        let path = std::path::absolute(path)?;
        std::fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
        let descriptor = lock(&path).await?;
        descriptor
            .set_permissions(Permissions::from_mode(0o700))
            .with_context(|| format!("cannot close {} to others", path.display()))?;
        Ok(Self { path, descriptor })
    }

    /// Releases the lock and acquires it again within 5 s. The caller must have killed the servers in the directory.
    pub(crate) async fn reclaim(&mut self) -> anyhow::Result<()> {
        self.descriptor = Arc::new(File::open(&self.path)?);
        self.descriptor = lock(&self.path).await?;
        Ok(())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

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
