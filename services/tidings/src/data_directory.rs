//! Names in the data directory of `tidings up` that other commands use.

use std::path::{Path, PathBuf};

/// The default data directory.
pub(crate) const DEFAULT: &str = ".tidings";

/// The file of the master key in a data directory.
pub(crate) fn master_key_file(directory: &Path) -> PathBuf {
    directory.join("master.key")
}
