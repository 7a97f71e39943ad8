//! Paths in the data directory of `tidings up` that other commands also use.

use std::path::{Path, PathBuf};

/// Relative to the working directory.
pub(crate) const DEFAULT: &str = ".tidings";

/// Variable that names the directory, unless the command line does.
pub(crate) const VARIABLE: &str = "TIDINGS_DATA_DIR";

pub(crate) fn master_key_file(directory: &Path) -> PathBuf {
    directory.join("master.key")
}
