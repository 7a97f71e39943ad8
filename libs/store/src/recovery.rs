//! Recovery: restoring a database from a backup and the log, and the shadow tables of `tidings verify` and `tidings rebuild
//! inbox`.

pub mod restore;
pub mod shadow;
