//! Acceptance and dry runs of sends.

pub(crate) mod acceptance;
pub(crate) mod category;
mod dry_run;
pub(crate) mod idempotency;
pub(crate) mod send;
mod shown_content;
