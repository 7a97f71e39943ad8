//! Status of a send.

pub(crate) mod cancellation;
pub(crate) mod deliveries;
pub(crate) mod request;
