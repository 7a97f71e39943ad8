//! Scale of a scenario.

use std::time::Duration;

/// Load and duration of a scenario.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// How long it goes on.
    pub(crate) span: Duration,
    /// Requests per second that the gateway accepts.
    pub(crate) rate_limit: u32,
    /// Requests per second that are offered.
    pub(crate) offered_per_second: u32,
    /// Connections that they come over.
    pub(crate) connections: usize,
    /// Recipients of one bulk send.
    pub(crate) bulk_recipients: usize,
    /// Transactional sends a second beside them.
    pub(crate) transactional_per_second: u32,
}
