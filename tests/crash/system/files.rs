//! The files of a run.

use std::path::{Path, PathBuf};

/// Directory of a run. It is removed when this value is dropped, unless the run failed.
#[derive(Debug)]
pub(crate) struct Files(PathBuf);

impl Files {
    /// Creates the empty directory `target/crash/{seed}-{process id}`.
    pub(crate) fn create(seed: u64) -> Files {
        let path = directory().join(format!("{seed}-{}", std::process::id()));
        if path.exists() {
            std::fs::remove_dir_all(&path).unwrap();
        }
        for part in ["logs", "journals"] {
            std::fs::create_dir_all(path.join(part)).unwrap();
        }
        Files(path)
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.0
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Path of the log of a process or server.
    pub(crate) fn log(&self, part: &str) -> PathBuf {
        self.0.join("logs").join(format!("{part}.log"))
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "the files of the run stay in {}: logs, journals, data of the servers",
                self.0.display()
            );
        } else if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("{} stays: {error}", self.0.display());
        }
    }
}

/// `target/crash`, which also holds the last report.
pub(crate) fn directory() -> PathBuf {
    let program = testkit::binary("tidings");
    program.ancestors().nth(2).unwrap_or(Path::new(".")).join("crash")
}
