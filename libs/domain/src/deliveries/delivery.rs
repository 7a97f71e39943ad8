use crate::problem::UnknownName;
use crate::profile::NoAddress;
use crate::text_enum::text_enum;

text_enum! {
    Status {
        /// Not yet claimed by a worker.
        Queued = "queued",
        /// Claimed by a worker. A call to the provider may be in progress.
        Sending = "sending",
        /// The last attempt failed temporarily. A timer starts the next attempt.
        Retrying = "retrying",
        /// A timer starts the next attempt. Callers see this status in place of `Queued` and `Retrying`; it is never stored.
        Waiting = "waiting",
        Sent = "sent",
        /// Confirmed by a receipt. For the in-app channel: the inbox lists the item.
        Delivered = "delivered",
        /// Permanently failed, or a [`RetryLimit`](crate::outcome::RetryLimit) is exhausted. After the usual schedule, the delivery is
        /// parked instead.
        Failed = "failed",
        /// The outcome of the call is unknown (SMS only). The message is never sent again.
        Unknown = "unknown",
        Skipped = "skipped",
        /// Retries are exhausted. The delivery and its message are kept until a redrive.
        Parked = "parked",
        /// The send was cancelled before the message was passed to a provider.
        Cancelled = "cancelled",
        /// The send's `expiresAt` passed before the message was sent.
        Expired = "expired",
    }
}

impl Status {
    /// Statuses of rows and messages.
    pub const STORED: [Status; 11] = [
        Status::Queued,
        Status::Sending,
        Status::Retrying,
        Status::Sent,
        Status::Delivered,
        Status::Failed,
        Status::Unknown,
        Status::Skipped,
        Status::Parked,
        Status::Cancelled,
        Status::Expired,
    ];
    /// Statuses of deliveries that a worker or a timer acts on. Only these can be claimed.
    pub const OPEN: [Status; 3] = [Status::Queued, Status::Retrying, Status::Sending];
    pub const WAITING: [Status; 2] = [Status::Queued, Status::Retrying];
    /// Statuses that allow another attempt. When an attempt ends with one of them, the delivery's attempt number is increased by
    /// one.
    pub const CONTINUED: [Status; 2] = [Status::Retrying, Status::Parked];
    /// Statuses that a delivery can get while a call to the provider may still be in progress. If the provider's answer arrives
    /// later, the status that follows from the answer replaces the recorded status.
    pub const CORRECTABLE: [Status; 3] = [Status::Cancelled, Status::Expired, Status::Skipped];
    /// Statuses that a receipt can change.
    pub const REPORTABLE: [Status; 2] = [Status::Sent, Status::Unknown];

    /// Returns true if no worker or timer acts on the delivery any more.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        self != Status::Waiting && !Status::OPEN.contains(&self)
    }
}

text_enum! {
    Reason {
        RecipientUnknown = "recipient_unknown",
        RecipientErased = "recipient_erased",
        TemplateError = "template_error",
        /// The recipient turned the channel off for the category.
        PreferenceOff = "preference_off",
        /// The send reaches the recipient only through topics on which the recipient's subscriptions leave the channel out.
        TopicChannelOff = "topic_channel_off",
        NoAddress = "no_address",
        InvalidAddress = "invalid_address",
        /// The send demands proven targets (`provenTargets`), and the user has none on the channel.
        UnprovenTarget = "unproven_target",
        NoProvider = "no_provider",
        NoContent = "no_content",
        /// `override.channels` leaves the channel out.
        NotSelected = "not_selected",
        /// A provider reported the target dead earlier.
        Suppressed = "suppressed",
        /// The API accepts the channel's name, but Tidings does not send on it.
        ChannelUnavailable = "channel_unavailable",
        /// The provider's code and text are stored with the attempt.
        ProviderRefused = "provider_refused",
        /// Content and overrides of the send do not fit the provider's format.
        InvalidContent = "invalid_content",
        /// The message is larger than the provider accepts, even without its body.
        TooLarge = "too_large",
        SenderNotAllowed = "sender_not_allowed",
        TargetGone = "target_gone",
        RetriesExhausted = "retries_exhausted",
        OutcomeUnknown = "outcome_unknown",
        RequestCancelled = "request_cancelled",
        /// Waits: the breakers of all eligible providers are open.
        BreakerOpen = "breaker_open",
        /// Waits: the provider's `max_per_second` is used up.
        RateLimited = "rate_limited",
        /// Waits: the calls that the provider, or one user or host, may have at the same time are under way.
        ProviderBusy = "provider_busy",
        /// Waits: the last attempt failed temporarily.
        RetryLater = "retry_later",
        /// Waits: the stream of the channel's jobs is full.
        LogFull = "log_full",
    }
}

impl Reason {
    /// Reasons of [`Status::Waiting`]. Timers contain them; deliveries and messages never do.
    pub const WAITING: [Reason; 5] =
        [Reason::BreakerOpen, Reason::RateLimited, Reason::ProviderBusy, Reason::RetryLater, Reason::LogFull];

    /// The reason that the previous release reads in place of this one. Rows and messages contain that reason, and next to it this
    /// one as a detail: the previous release cannot read a row or message with a reason that it does not know.
    #[must_use]
    pub fn known_before(self) -> Reason {
        match self {
            Reason::InvalidAddress => Reason::NoAddress,
            Reason::TopicChannelOff => Reason::PreferenceOff,
            Reason::InvalidContent | Reason::TooLarge | Reason::SenderNotAllowed => Reason::ProviderRefused,
            reason => reason,
        }
    }

    /// Detail to write next to [`known_before`](Self::known_before), if that reason does not say everything.
    #[must_use]
    pub fn detail(self) -> Option<Reason> {
        (self.known_before() != self).then_some(self)
    }

    /// A detail that does not refine `self` is left over from an earlier attempt or a newer release, and is ignored.
    #[must_use]
    pub fn with_detail(self, detail: Option<&str>) -> Reason {
        let detail = detail.and_then(|detail| detail.parse::<Reason>().ok());
        detail.filter(|detail| detail.known_before() == self).unwrap_or(self)
    }

    /// Writes `reason` or `reason:detail`.
    #[must_use]
    pub fn written(self) -> String {
        match self.detail() {
            None => self.as_str().to_owned(),
            Some(detail) => format!("{}:{detail}", self.known_before()),
        }
    }

    /// Reads `reason` or `reason:detail`; fails if this release does not know the reason.
    pub fn read(text: &str) -> Result<Reason, UnknownName> {
        let (reason, detail) =
            text.split_once(':').map_or((text, None), |(reason, detail)| (reason, Some(detail)));
        Ok(reason.parse::<Reason>()?.with_detail(detail))
    }

    #[must_use]
    pub fn planned_status(self) -> Status {
        match self {
            Reason::TemplateError => Status::Failed,
            Reason::RequestCancelled => Status::Cancelled,
            _ => Status::Skipped,
        }
    }
}

impl From<NoAddress> for Reason {
    fn from(problem: NoAddress) -> Reason {
        match problem {
            NoAddress::Absent => Reason::NoAddress,
            NoAddress::Malformed => Reason::InvalidAddress,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_read_again_from_what_the_previous_release_reads_and_its_detail() {
        for &reason in Reason::ALL {
            let detail = reason.detail().map(Reason::as_str);
            assert_eq!(reason.known_before().with_detail(detail), reason);
            assert_eq!(Reason::read(&reason.written()), Ok(reason));
            assert_eq!(reason.known_before().known_before(), reason.known_before());
            assert_eq!(reason.planned_status(), reason.known_before().planned_status());
        }
        assert_eq!(Reason::Suppressed.with_detail(Some("too_large")), Reason::Suppressed);
        assert_eq!(Reason::ProviderRefused.with_detail(Some("of_a_newer_release")), Reason::ProviderRefused);
    }
}
