//! The directory of a `tidings up`, as far as other commands know it.

use std::path::{Path, PathBuf};

/// The data directory if none is named.
pub(crate) const DEFAULT: &str = ".tidings";

/// The file of the master key in a data directory.
pub(crate) fn master_key_file(directory: &Path) -> PathBuf {
    directory.join("master.key")
}
