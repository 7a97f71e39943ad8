//! Paths in the data directory of `tidings up` that other commands also use.

use std::path::{Path, PathBuf};

/// Default data directory, relative to the working directory.
pub(crate) const DEFAULT: &str = ".tidings";

/// Returns the path of the master key file in a data directory.
pub(crate) fn master_key_file(directory: &Path) -> PathBuf {
    directory.join("master.key")
}
