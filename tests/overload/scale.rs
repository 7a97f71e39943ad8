//! How much there is of everything.

use std::time::Duration;

/// How much there is of everything.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// How long it goes on.
    pub(crate) span: Duration,
    /// Requests a second that the gateway takes.
    pub(crate) rate_limit: u32,
    /// Requests a second that it is asked for.
    pub(crate) offered_per_second: u32,
    /// Connections that they come over.
    pub(crate) connections: usize,
    /// Recipients of one bulk send.
    pub(crate) bulk_recipients: usize,
    /// Transactional sends a second beside them.
    pub(crate) transactional_per_second: u32,
}
