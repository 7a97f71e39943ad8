//! Sends: acceptance, dry runs, status and cancellation.

pub(crate) mod accept;
pub(crate) mod cancellation;
mod dry_run;
mod idempotency;
pub(crate) mod list;
mod shown_content;
pub(crate) mod status;
mod submission;
pub(crate) mod workflows;
