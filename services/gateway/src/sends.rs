//! Sends: acceptance, dry runs, status and cancellation.

pub(crate) mod accept;
pub(crate) mod cancellation;
pub(crate) mod category;
mod checks;
mod dry_run;
pub(crate) mod idempotency;
mod provider_checks;
mod push_sizes;
mod shown_content;
pub(crate) mod status;
pub(crate) mod submission;
pub(crate) mod volume;
