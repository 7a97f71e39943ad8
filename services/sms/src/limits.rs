//! Time limits of the parts of a call.

use std::time::Duration;

/// Time limits of a call.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Limit of a whole HTTP call, or of all parts of a message over SMPP.
    pub call: Duration,
    /// Limit until an SMPP session is bound and has room for a message. A message not started by then was not sent.
    pub connecting: Duration,
    /// Limit of a message centre's answer to one part.
    pub response: Duration,
    /// Time for which an idle SMPP session stays bound, so that receipts still arrive.
    pub idle: Duration,
}

impl Limits {
    /// Creates limits below three fifths of a lease, the worker's own limit for a call: on a timeout, the channel knows
    /// the stage of the message, the worker does not.
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
