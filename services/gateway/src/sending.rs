//! Accepting sends.

pub(crate) mod acceptance;
pub(crate) mod idempotency;
pub(crate) mod send;
