//! Recovery: restored backups, and the shadow tables of `verify` and `rebuild`.

pub mod restore;
pub mod shadow;
