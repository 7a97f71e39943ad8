use std::fs::{DirBuilder, File, TryLockError};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use credentials::MasterKey;

use crate::data_directory::master_key_file;
use crate::dev_file::DevFile;

/// The process keeps the directory locked until it ends.
pub(crate) struct DataDirectory {
    path: PathBuf,
    _lock: File,
}

impl DataDirectory {
    /// Fails if another `tidings up` runs on the directory.
    pub(super) fn claim(path: &Path) -> anyhow::Result<Self> {
        let path = std::path::absolute(path)?;
        let created = DirBuilder::new().recursive(true).mode(0o700).create(&path);
        created.with_context(|| format!("cannot create {}", path.display()))?;
        let lock_file = path.join("lock");
        let lock = File::options().create(true).truncate(false).write(true).open(&lock_file);
        let lock = lock.with_context(|| format!("cannot write {}", lock_file.display()))?;
        match lock.try_lock() {
            Ok(()) => Ok(DataDirectory { path, _lock: lock }),
            Err(TryLockError::WouldBlock) => {
                let address =
                    DevFile::read(&path)?.map(|running| format!(" ({})", running.api)).unwrap_or_default();
                bail!(
                    "another `tidings up`{address} runs on {}: use that one, stop it, or choose another directory with \
                     --data-dir",
                    path.display()
                )
            }
            Err(TryLockError::Error(error)) => {
                Err(error).with_context(|| format!("cannot lock {}", lock_file.display()))
            }
        }
    }

    /// Absolute path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the key at the first start.
    pub(super) fn master_key_file(&self) -> anyhow::Result<PathBuf> {
        let path = master_key_file(&self.path);
        if !path.exists() {
            MasterKey::generate_file(&path)?;
        }
        Ok(path)
    }

    pub(super) fn postgres(&self) -> PathBuf {
        self.path.join("postgres")
    }

    pub(super) fn nats(&self) -> PathBuf {
        self.path.join("nats")
    }

    pub(super) fn outbox(&self) -> PathBuf {
        self.path.join("outbox")
    }

    pub(super) fn ports(&self) -> PathBuf {
        self.path.join("ports.json")
    }

    pub(super) fn demo_app(&self) -> PathBuf {
        self.path.join("demo-app.json")
    }
}
