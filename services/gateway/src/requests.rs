//! Status, deliveries and cancellation of accepted sends.

pub(crate) mod cancellation;
pub(crate) mod deliveries;
pub(crate) mod request;
