//! What a provider's answer means.

use std::time::Duration;

/// The class of a provider's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The provider took the message.
    Sent {
        /// The provider's own id of it, where it gave one.
        provider_id: Option<String>,
    },
    /// Not now: try again.
    Retry {
        /// Not before this much time has passed, as the provider asked.
        after: Option<Duration>,
        /// A schedule shorter than the usual one, as how many retries over which time.
        limit: Option<RetryLimit>,
    },
    /// Refused for good.
    Failed,
    /// Refused for good, and the target is dead: suppress it.
    TargetGone,
    /// Trouble with the credential or the account: fall over to the next provider.
    PauseProvider,
    /// The message may or may not have been taken.
    Unknown,
}

/// At most `retries` further attempts, spread evenly over `over`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryLimit {
    /// Attempts after the first.
    pub retries: u32,
    /// The time over which they are spread.
    pub over: Duration,
}

/// A classified answer of a provider, with what is recorded of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What it means.
    pub outcome: Outcome,
    /// The provider's code, such as `550 5.1.1`, or ours for a failure on the way (`connect`, `timeout`).
    pub code: String,
    /// The provider's words, bounded in length, without the message's content.
    pub message: String,
}

impl Outcome {
    /// The name recorded with an attempt.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Outcome::Sent { .. } => "sent",
            Outcome::Retry { .. } => "retry",
            Outcome::Failed => "failed",
            Outcome::TargetGone => "target_gone",
            Outcome::PauseProvider => "pause_provider",
            Outcome::Unknown => "unknown",
        }
    }
}
