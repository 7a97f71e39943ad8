//! Paths in the data directory of `tidings up` that other commands also use.

use std::path::{Path, PathBuf};

/// Relative to the working directory.
pub(crate) const DEFAULT: &str = ".tidings";

pub(crate) fn master_key_file(directory: &Path) -> PathBuf {
    directory.join("master.key")
}
