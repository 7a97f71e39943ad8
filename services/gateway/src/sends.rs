//! Sends: acceptance, dry runs, status and cancellation.

pub(crate) mod acceptance;
pub(crate) mod cancellation;
pub(crate) mod category;
mod dry_run;
pub(crate) mod idempotency;
pub(crate) mod send;
mod shown_content;
pub(crate) mod status;
