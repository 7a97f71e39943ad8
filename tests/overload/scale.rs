//! Scale of a scenario.

use std::time::Duration;

/// Load and duration of a scenario.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    pub(crate) span: Duration,
    /// Requests per second that the gateway accepts.
    pub(crate) rate_limit: u32,
    /// Requests per second that are offered.
    pub(crate) offered_per_second: u32,
    /// Number of connections for these requests.
    pub(crate) connections: usize,
    /// Recipients of one bulk send.
    pub(crate) bulk_recipients: usize,
    /// Transactional sends per second during bulk sends.
    pub(crate) transactional_per_second: u32,
}
