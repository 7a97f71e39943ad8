//! What a provider's answer means.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// Bytes of a provider's code that are kept.
const MAX_CODE: usize = 100;
/// Bytes of a provider's words that are kept.
const MAX_MESSAGE: usize = 1_000;
/// Bytes of a provider's own id that are kept.
const MAX_PROVIDER_ID: usize = 500;

/// The class of a provider's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
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
    TargetGone(Gone),
    /// Trouble with the credential or the account: fall over to the next provider.
    PauseProvider,
    /// The message may or may not have been taken.
    Unknown,
    /// The same, of a provider that takes a second call under the same id for the same message: it is called again, and
    /// no other.
    Repeat {
        /// Not before this much time has passed, as the provider asked.
        after: Option<Duration>,
    },
}

/// What a provider says of a dead target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Gone {
    /// Dead since this moment: a target that was registered later is not meant.
    pub since: Option<Timestamp>,
    /// Dead for this provider alone (another environment, topic or sender may still reach it): another provider that
    /// serves the target is asked first.
    pub here_only: bool,
}

/// At most `retries` further attempts, spread evenly over `over`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryLimit {
    /// Attempts after the first.
    pub retries: u32,
    /// The time over which they are spread.
    pub over: Duration,
}

/// A classified answer of a provider, with what is recorded of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// What it means.
    pub outcome: Outcome,
    /// The provider's code, such as `550 5.1.1`, or ours for a failure on the way (`connect`, `timeout`).
    pub code: String,
    /// The provider's words, bounded in length, without the message's content.
    pub message: String,
    /// Parts that the message took, where the channel counts them (SMS segments).
    pub segments: Option<u32>,
    /// What a failure says of the provider's health.
    #[serde(default)]
    pub blame: Blame,
}

/// What a failure says of the provider's health.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Blame {
    /// Trouble with the account counts in full. Any other failure counts once per user: the target may have provoked it.
    #[default]
    Usual,
    /// It counts in full: it happened before the target was named.
    Provider,
    /// It counts once per user, trouble with the account too: the target may be of another account.
    User,
    /// It says nothing: it is about this target alone, or about us.
    Nobody,
}

impl Answer {
    /// An answer that counts no segments.
    pub fn new(outcome: Outcome, code: impl Into<String>, message: impl Into<String>) -> Answer {
        Answer { outcome, code: code.into(), message: message.into(), segments: None, blame: Blame::Usual }
    }

    /// The same, with nothing in it that speaks against the provider.
    #[must_use]
    pub fn sparing_provider(self) -> Answer {
        Answer { blame: Blame::Nobody, ..self }
    }

    /// The same as a failure before the target was named, which no target can provoke.
    #[must_use]
    pub fn blaming_provider(self) -> Answer {
        Answer { blame: Blame::Provider, ..self }
    }

    /// The same as a failure that a target of another account provokes, too.
    #[must_use]
    pub fn blaming_user(self) -> Answer {
        Answer { blame: Blame::User, ..self }
    }

    /// The answer as rows can hold it: without U+0000, and no longer than rows are meant to be. A provider may say
    /// anything.
    #[must_use]
    pub fn storable(mut self) -> Answer {
        clean(&mut self.code, MAX_CODE);
        clean(&mut self.message, MAX_MESSAGE);
        if let Outcome::Sent { provider_id: Some(id) } = &mut self.outcome {
            clean(id, MAX_PROVIDER_ID);
        }
        self
    }
}

fn clean(text: &mut String, most: usize) {
    text.retain(|c| c != '\0');
    text.truncate(text.floor_char_boundary(most));
}

impl Outcome {
    /// A temporary failure that follows the usual schedule.
    pub const RETRY: Outcome = Outcome::Retry { after: None, limit: None };

    /// An open outcome at a provider that may be called again, by the usual schedule.
    pub const REPEAT: Outcome = Outcome::Repeat { after: None };

    /// A target that is dead for everybody, whenever it was registered.
    pub const GONE: Outcome = Outcome::TargetGone(Gone { since: None, here_only: false });

    /// Whether it is to be tried again on a short schedule of its own.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        matches!(self, Outcome::Retry { limit: Some(_), .. })
    }

    /// The name recorded with an attempt, which says what is known of it and not what follows.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Outcome::Sent { .. } => "sent",
            Outcome::Retry { .. } => "retry",
            Outcome::Failed => "failed",
            Outcome::TargetGone(_) => "target_gone",
            Outcome::PauseProvider => "pause_provider",
            Outcome::Unknown | Outcome::Repeat { .. } => "unknown",
        }
    }
}
