//! Time limits of the parts of a call.

use std::time::Duration;

/// Time limits of a call.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// A whole HTTP call, or all parts of a message over SMPP.
    pub call: Duration,
    /// Until an SMPP session is bound and has room for a message. What has not begun by then was certainly not sent.
    pub connecting: Duration,
    /// For an SMSC's answer to one part.
    pub response: Duration,
    /// Time for which an idle SMPP session stays bound, so that receipts still arrive.
    pub idle: Duration,
}

impl Limits {
    /// Limits that end below the three fifths of a lease that the worker gives a call: we know how far a message came,
    /// the worker does not.
    #[must_use]
    pub fn for_lease(lease: Duration) -> Limits {
        Limits {
            call: lease / 2,
            connecting: lease / 9,
            response: lease / 3,
            idle: Duration::from_secs(3600),
        }
    }
}
