use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Limit for one HTTP call, or for all parts of one SMPP message together.
    pub call: Duration,
    /// Limit for binding an SMPP session, and for the wait until the session can submit a message. A message that is
    /// not submitted by then is not sent.
    pub connecting: Duration,
    /// Limit for the message centre's response to one part of a message.
    pub response: Duration,
    /// Time for which an idle SMPP session stays bound, so that receipts still arrive.
    pub idle: Duration,
}

impl Limits {
    /// Derives the limits from the length of a lease. The worker ends a call after three fifths of the lease, and
    /// the limits of a call are shorter than that. The channel must time out first, because only the channel knows
    /// whether the message may have been sent.
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
