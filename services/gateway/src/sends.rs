//! Sends: acceptance, dry runs, status and cancellation.

pub(crate) mod accept;
pub(crate) mod cancellation;
mod dry_run;
mod idempotency;
mod shown_content;
pub(crate) mod status;
mod submission;
pub(crate) mod workflows;
