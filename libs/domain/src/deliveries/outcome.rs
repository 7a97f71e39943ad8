use std::fmt::Display;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::excerpt::excerpt;
use crate::{Reason, Timestamp};

/// Length in bytes.
const MAX_CODE: usize = 100;
/// Length in bytes.
const MAX_MESSAGE: usize = 1_000;
/// Length in bytes.
const MAX_PROVIDER_ID: usize = 500;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Outcome {
    Sent {
        /// The provider's id of the message.
        provider_id: Option<String>,
    },
    /// The call may be repeated later.
    Retry {
        /// Minimum delay that the provider requests.
        after: Option<Duration>,
        /// Replaces the usual schedule.
        limit: Option<RetryLimit>,
    },
    Failed,
    /// The target is dead, and becomes suppressed.
    TargetGone(TargetDeath),
    /// Problem with the credential or the account. The delivery fails over to the next provider.
    PauseProvider,
    /// The provider may have accepted the message.
    Unknown,
    /// Outcome unknown, but the provider de-duplicates by idempotency key. Only this provider may be called again.
    Repeat {
        /// Minimum delay that the provider requests.
        after: Option<Duration>,
    },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetDeath {
    /// Time at which the provider found the target dead, if it states one. A target that was registered later is not affected.
    pub since: Option<Timestamp>,
    /// True if the target is dead for this provider only, for example because of its environment, topic or sender. The delivery then fails
    /// over to the other providers that serve the target.
    pub here_only: bool,
}

/// At most `retries` further attempts, spread evenly over the time `over`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryLimit {
    pub retries: u32,
    pub over: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    pub outcome: Outcome,
    /// The provider's code, such as `550 5.1.1`, or a code that Tidings assigns to a transport failure (`connect`, `timeout`).
    pub code: String,
    /// The provider's text, bounded in length, without the message's content.
    pub message: String,
    /// SMS segments.
    pub segments: Option<u32>,
    #[serde(default)]
    pub blame: Blame,
    /// Set if Tidings refused the message itself, without asking the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Reason>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Blame {
    /// A problem with the account opens the breaker at once. Any other failure counts only once per user, because the target may have
    /// caused it.
    #[default]
    Usual,
    /// Every failure counts, even if several failures concern the same user. The targets cannot have caused them, because the
    /// provider had not received a target yet.
    Provider,
    /// The user's target may have caused the failure, for example if it belongs to another account at the provider. Every failure, even a
    /// problem with the account, counts only once per user.
    User,
    /// The failure concerns only this target, or Tidings itself.
    #[serde(rename = "nobody")]
    None,
}

impl Answer {
    pub fn new(outcome: Outcome, code: impl Into<String>, message: impl Into<String>) -> Answer {
        let (code, message) = (code.into(), message.into());
        Answer { outcome, code, message, segments: None, blame: Blame::Usual, refusal: None }
    }

    /// Creates the answer for a message that Tidings refuses without asking the provider.
    pub fn refused(reason: Reason, code: impl Into<String>, message: impl Into<String>) -> Answer {
        let answer = Answer::new(Outcome::Failed, code, message).sparing_provider();
        Answer { refusal: Some(reason), ..answer }
    }

    #[must_use]
    pub fn reason(&self, reason: Option<Reason>) -> Option<Reason> {
        match reason {
            Some(Reason::ProviderRefused) => self.refusal.or(reason),
            reason => reason,
        }
    }

    /// Puts a note before the provider's text, if the provider accepted the message or may have accepted it.
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

    #[must_use]
    pub fn sparing_provider(self) -> Answer {
        Answer { blame: Blame::None, ..self }
    }

    #[must_use]
    pub fn blaming_provider(self) -> Answer {
        Answer { blame: Blame::Provider, ..self }
    }

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
    pub const RETRY: Outcome = Outcome::Retry { after: None, limit: None };

    /// Outcome unknown, but the provider de-duplicates by idempotency key: retry on the usual schedule.
    pub const REPEAT: Outcome = Outcome::Repeat { after: None };

    /// A target that is dead for every provider, regardless of when it was registered.
    pub const GONE: Outcome = Outcome::TargetGone(TargetDeath { since: None, here_only: false });

    #[must_use]
    pub fn is_limited(&self) -> bool {
        matches!(self, Outcome::Retry { limit: Some(_), .. })
    }

    /// Name under which the outcome is stored with its attempt.
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
