//! Classified answers of providers.

use std::fmt::Display;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::excerpt::excerpt;
use crate::{Reason, Timestamp};

/// Longest provider code that is kept, in bytes.
const MAX_CODE: usize = 100;
/// Longest provider message that is kept, in bytes.
const MAX_MESSAGE: usize = 1_000;
/// Longest provider message id that is kept, in bytes.
const MAX_PROVIDER_ID: usize = 500;

/// Class of a provider's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Outcome {
    /// The provider accepted the message.
    Sent {
        /// The provider's id of the message, if the answer contains one.
        provider_id: Option<String>,
    },
    /// Temporary failure. The call may be repeated later.
    Retry {
        /// Minimum delay that the provider requests.
        after: Option<Duration>,
        /// Limited retry schedule that replaces the usual schedule.
        limit: Option<RetryLimit>,
    },
    /// Permanently refused.
    Failed,
    /// Permanently refused because the target is dead. The target is suppressed.
    TargetGone(TargetDeath),
    /// Problem with the credential or the account. The delivery fails over to the next provider.
    PauseProvider,
    /// The provider may or may not have accepted the message.
    Unknown,
    /// Outcome unknown, but the provider de-duplicates by idempotency key. Only this provider may be called again.
    Repeat {
        /// Minimum delay that the provider requests.
        after: Option<Duration>,
    },
}

/// Details about a dead target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetDeath {
    /// Time at which the provider found the target dead; None if the provider states no time. A target that was registered after
    /// this time is not affected.
    pub since: Option<Timestamp>,
    /// True if the target is dead for this provider only, for example because the provider uses a different environment, topic or
    /// sender. The delivery then fails over to the other providers that serve the target.
    pub here_only: bool,
}

/// Limited retry schedule: at most `retries` further attempts, spread evenly over the time `over`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryLimit {
    /// Maximum number of further attempts.
    pub retries: u32,
    /// Time over which these attempts are spread.
    pub over: Duration,
}

/// A classified answer of a provider, with its recorded details.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    pub outcome: Outcome,
    /// The provider's code, such as `550 5.1.1`, or a code that Tidings assigns to a transport failure (`connect`, `timeout`).
    pub code: String,
    /// The provider's text, bounded in length, without the message's content.
    pub message: String,
    /// Number of parts of the message, if the channel counts them (SMS segments).
    pub segments: Option<u32>,
    /// Effect of a failure on the provider's health.
    #[serde(default)]
    pub blame: Blame,
    /// Reason why Tidings refused the message itself, without asking the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Reason>,
}

/// Effect of a failure on the provider's health.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Blame {
    /// A problem with the account opens the breaker at once. Any other failure counts only once per user, because the target may
    /// have caused it.
    #[default]
    Usual,
    /// Every failure counts, even if several failures concern the same user. The targets cannot have caused them, because the
    /// provider had not received a target yet.
    Provider,
    /// The user's target may have caused the failure, for example if it belongs to another account at the provider. Every
    /// failure, even a problem with the account, counts only once per user.
    User,
    /// The failure does not count, because it concerns only this target, or Tidings itself.
    #[serde(rename = "nobody")]
    None,
}

impl Answer {
    /// Creates an answer without segments.
    pub fn new(outcome: Outcome, code: impl Into<String>, message: impl Into<String>) -> Answer {
        let (code, message) = (code.into(), message.into());
        Answer { outcome, code, message, segments: None, blame: Blame::Usual, refusal: None }
    }

    /// Creates the answer for a message that Tidings refuses without asking the provider.
    pub fn refused(reason: Reason, code: impl Into<String>, message: impl Into<String>) -> Answer {
        let answer = Answer::new(Outcome::Failed, code, message).sparing_provider();
        Answer { refusal: Some(reason), ..answer }
    }

    /// Returns the reason to record for a delivery that ends with this answer and with `reason`, which follows from the outcome.
    #[must_use]
    pub fn reason(&self, reason: Option<Reason>) -> Option<Reason> {
        match reason {
            Some(Reason::ProviderRefused) => self.refusal.or(reason),
            reason => reason,
        }
    }

    /// Adds a note about the message as it was sent, before the provider's text, if the provider accepted the message or may have
    /// accepted it.
    #[must_use]
    pub fn noting(self, note: Option<impl Display>) -> Answer {
        let is_sent =
            matches!(self.outcome, Outcome::Sent { .. } | Outcome::Unknown | Outcome::Repeat { .. });
        match note {
            Some(note) if is_sent && self.message.is_empty() => Answer { message: note.to_string(), ..self },
            Some(note) if is_sent => Answer { message: format!("{note}; {}", self.message), ..self },
            _ => self,
        }
    }

    /// Marks the failure as not counting against the provider's health.
    #[must_use]
    pub fn sparing_provider(self) -> Answer {
        Answer { blame: Blame::None, ..self }
    }

    /// Marks the failure as one that no target can cause: the provider had not received the target yet.
    #[must_use]
    pub fn blaming_provider(self) -> Answer {
        Answer { blame: Blame::Provider, ..self }
    }

    /// Marks the failure as one that the user's target may have caused, for example a target that belongs to another account at
    /// the provider. However often it happens, it counts against the provider's health only once per user.
    #[must_use]
    pub fn blaming_user(self) -> Answer {
        Answer { blame: Blame::User, ..self }
    }

    /// Removes U+0000 and truncates long texts, so that PostgreSQL can store the answer.
    #[must_use]
    pub fn storable(mut self) -> Answer {
        clean(&mut self.code, MAX_CODE);
        self.message.retain(|c| c != '\0');
        self.message = excerpt(self.message, MAX_MESSAGE);
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

    /// Outcome unknown, but the provider de-duplicates by idempotency key: retry on the usual schedule.
    pub const REPEAT: Outcome = Outcome::Repeat { after: None };

    /// A target that is dead for every provider, regardless of when it was registered.
    pub const GONE: Outcome = Outcome::TargetGone(TargetDeath { since: None, here_only: false });

    /// Returns true for a temporary failure with a [`RetryLimit`].
    #[must_use]
    pub fn is_limited(&self) -> bool {
        matches!(self, Outcome::Retry { limit: Some(_), .. })
    }

    /// Name under which the outcome is stored with its attempt. It states the result, not the next step.
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
