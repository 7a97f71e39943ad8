//! The states of a delivery, and the reasons why one was not made.

use crate::text_enum::text_enum;

text_enum! {
    /// State of a (recipient, channel) of a send.
    Status {
        /// Planned, not yet claimed by a worker.
        Queued = "queued",
        /// Claimed; an attempt may be under way.
        Sending = "sending",
        /// An attempt failed for now; a timer holds the next one.
        Retrying = "retrying",
        /// The provider accepted it.
        Sent = "sent",
        /// A receipt says that it arrived; for the inbox: a list shows it.
        Delivered = "delivered",
        /// The provider refused it permanently.
        Failed = "failed",
        /// The outcome cannot be known (SMS only); never sent again.
        Unknown = "unknown",
        /// Decided against when the send was planned.
        Skipped = "skipped",
        /// Retries are exhausted; kept with its message until redriven.
        Parked = "parked",
        /// Cancelled before it was handed to a provider.
        Cancelled = "cancelled",
        /// Its `expiresAt` passed before it was sent.
        Expired = "expired",
    }
}

impl Status {
    /// Returns true if no worker or timer acts on the delivery any more.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        !matches!(self, Status::Queued | Status::Sending | Status::Retrying)
    }
}

text_enum! {
    /// The reason for the status of a (recipient, channel).
    Reason {
        /// No user of the app has this identifier.
        RecipientUnknown = "recipient_unknown",
        /// The user was erased.
        RecipientErased = "recipient_erased",
        /// The template failed while rendering.
        TemplateError = "template_error",
        /// The recipient turned the channel off for the category.
        PreferenceOff = "preference_off",
        /// The profile has no usable address for the channel.
        NoAddress = "no_address",
        /// The app has no enabled provider for the channel.
        NoProvider = "no_provider",
        /// The template has no content for the channel.
        NoContent = "no_content",
        /// `override.channels` leaves the channel out.
        NotSelected = "not_selected",
        /// The target is known to be dead.
        Suppressed = "suppressed",
        /// The API knows the channel, but Tidings does not deliver it.
        ChannelUnavailable = "channel_unavailable",
        /// The provider refused the message; its code and message are with the attempt.
        ProviderRefused = "provider_refused",
        /// The provider says that the target is dead.
        TargetGone = "target_gone",
        /// The last retry of the schedule failed.
        RetriesExhausted = "retries_exhausted",
        /// The call's outcome cannot be known.
        OutcomeUnknown = "outcome_unknown",
        /// The request was cancelled before it was handed to a provider.
        RequestCancelled = "request_cancelled",
    }
}

impl Reason {
    /// The status of a (recipient, channel) that planning or rendering ended for this reason.
    #[must_use]
    pub fn planned_status(self) -> Status {
        match self {
            Reason::TemplateError => Status::Failed,
            Reason::RequestCancelled => Status::Cancelled,
            _ => Status::Skipped,
        }
    }
}
