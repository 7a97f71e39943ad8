use uuid::Uuid;

use crate::text_enum::text_enum;
use crate::{Envelope, Event, StreamName, Timestamp};

text_enum! {
    /// Reason why a redrive leaves a message parked.
    Skip {
        Expired = "expired",
        Erased = "erased",
        Cancelled = "cancelled",
        Suppressed = "suppressed",
        Read = "read",
        /// The same channel reached another target of the user.
        DeliveredOtherwise = "delivered_otherwise",
        SettledOtherwise = "settled_otherwise",
        /// The only provider that may send the message is no longer enabled.
        ProviderGone = "provider_gone",
        Unreadable = "unreadable",
    }
}

text_enum! {
    /// State of a redrive that the dispatcher makes page by page.
    RunState {
        Running = "running",
        Paused = "paused",
        /// Ended by an operator.
        Stopped = "stopped",
        Done = "done",
    }
}

impl RunState {
    /// True if the run never continues.
    #[must_use]
    pub fn is_end(self) -> bool {
        matches!(self, RunState::Stopped | RunState::Done)
    }
}

text_enum! {
    /// Reason why a run paused itself.
    Pause {
        /// Too many of the latest redriven deliveries have failed or are parked again.
        Failing = "failing",
        /// A redriven delivery waits for the circuit breaker of its provider.
        BreakerOpen = "breaker_open",
    }
}

/// Facts that decide whether a redrive publishes a parked message. All fields about the delivery are false if the message does not belong
/// to one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Obstacles {
    pub is_settled: bool,
    pub is_erased: bool,
    pub is_cancelled: bool,
    pub is_expired: bool,
    pub is_suppressed: bool,
    pub is_read: bool,
    /// The delivery's channel reached another target of the user.
    pub is_delivered: bool,
    /// The delivery's last provider is not enabled or does not exist.
    pub is_provider_gone: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct ParkedMessage<'a> {
    /// A message gets a new id each time it is parked.
    pub id: Uuid,
    /// None if this release does not know the stream.
    pub stream: Option<StreamName>,
    pub message: &'a [u8],
    pub obstacles: Obstacles,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedrivenMessage {
    /// If the message is a job, its envelope has the same id.
    pub id: Uuid,
    pub stream: StreamName,
    pub message: Vec<u8>,
}

impl ParkedMessage<'_> {
    /// None if a redrive would publish the message.
    #[must_use]
    pub fn skip(&self) -> Option<Skip> {
        if self.stream.is_none() {
            return Some(Skip::Unreadable);
        }
        let obstacles = self.obstacles;
        let is_stranded = obstacles.is_provider_gone && self.is_bound();
        [
            (obstacles.is_settled, Skip::SettledOtherwise),
            (obstacles.is_erased, Skip::Erased),
            (obstacles.is_cancelled, Skip::Cancelled),
            (obstacles.is_expired, Skip::Expired),
            (obstacles.is_suppressed, Skip::Suppressed),
            (obstacles.is_read, Skip::Read),
            (obstacles.is_delivered, Skip::DeliveredOtherwise),
            (is_stranded, Skip::ProviderGone),
        ]
        .into_iter()
        .find_map(|(applies, skip)| applies.then_some(skip))
    }

    /// True if only one provider may send the message, because it may already have accepted it.
    fn is_bound(&self) -> bool {
        Envelope::decode(self.message).is_ok_and(|envelope| match envelope.event {
            Event::DeliveryJob(job) => !job.channel.is_repeatable() && job.route.only.is_some(),
            _ => false,
        })
    }

    /// Builds the message that a redrive publishes; None if this release does not know its stream or cannot encode it. If the job's
    /// provider is no longer enabled, any provider may be called.
    #[must_use]
    pub fn redriven(&self, now: Timestamp) -> Option<RedrivenMessage> {
        // A message gets a new id each time it is parked, so the id derived from it has never been used before.
        let id = Uuid::new_v5(&self.id, b"redrive");
        let mut message = self.message.to_vec();
        if let Ok(mut envelope) = Envelope::decode(&message)
            && let Event::DeliveryJob(job) = &mut envelope.event
        {
            job.route.passed_over.clear();
            if self.obstacles.is_provider_gone {
                job.route.unbind();
            }
            envelope.caused_by = Some(envelope.id);
            envelope.id = id;
            envelope.at = now;
            message = envelope.encode().ok()?;
        }
        Some(RedrivenMessage { id, stream: self.stream?, message })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::{Content, SmsContent};
    use crate::event::DeliveryJob;
    use crate::{AppId, Channel, DeliveryId, Lane, Route, UserNumber};

    const NOW: Timestamp = Timestamp::from_millis(1_000_000);
    const STREAM: StreamName = StreamName::Job(Channel::Sms, Lane::Bulk);
    const JOB: Uuid = Uuid::from_u128(77);

    fn job(channel: Channel) -> Vec<u8> {
        let content = Content::Sms(SmsContent { text: "Hello".to_owned(), from: None });
        let id = DeliveryId(Uuid::from_u128(3));
        let first = DeliveryJob::first(id, channel, UserNumber(4), "+4915112345678".to_owned(), content);
        let route =
            Route { only: Some("main".to_owned()), keyed: true, passed_over: vec!["second".to_owned()] };
        let event = Event::DeliveryJob(Box::new(DeliveryJob { attempt: 9, route, ..first }));
        let at = Timestamp::from_millis(0);
        let app = AppId(1);
        Envelope { id: JOB, app, at, send_id: None, caused_by: None, trace: None, event }.encode().unwrap()
    }

    fn parked(message: &[u8], obstacles: Obstacles) -> ParkedMessage<'_> {
        ParkedMessage { id: Uuid::from_u128(5), stream: Some(STREAM), message, obstacles }
    }

    fn provider_gone() -> Obstacles {
        Obstacles { is_provider_gone: true, ..Obstacles::default() }
    }

    #[test]
    fn the_first_obstacle_is_reported() {
        let message = job(Channel::Sms);
        let mut obstacles = Obstacles::default();
        let mut reported = vec![parked(&message, obstacles).skip()];
        for obstacle in [
            (|obstacles| obstacles.is_provider_gone = true) as fn(&mut Obstacles),
            |obstacles| obstacles.is_delivered = true,
            |obstacles| obstacles.is_read = true,
            |obstacles| obstacles.is_suppressed = true,
            |obstacles| obstacles.is_expired = true,
            |obstacles| obstacles.is_cancelled = true,
            |obstacles| obstacles.is_erased = true,
            |obstacles| obstacles.is_settled = true,
        ] {
            obstacle(&mut obstacles);
            reported.push(parked(&message, obstacles).skip());
        }
        let expected = [
            Skip::ProviderGone,
            Skip::DeliveredOtherwise,
            Skip::Read,
            Skip::Suppressed,
            Skip::Expired,
            Skip::Cancelled,
            Skip::Erased,
            Skip::SettledOtherwise,
        ];
        assert_eq!(reported[0], None);
        assert_eq!(reported[1..], expected.map(Some));
    }

    #[test]
    fn a_message_for_an_unknown_stream_stays_parked() {
        let unknown = ParkedMessage { stream: None, ..parked(b"{}", Obstacles::default()) };
        assert_eq!((unknown.skip(), unknown.redriven(NOW)), (Some(Skip::Unreadable), None));
    }

    #[test]
    fn only_a_message_that_must_not_be_sent_twice_needs_its_provider() {
        let repeatable = job(Channel::Email);
        assert_eq!(parked(&repeatable, provider_gone()).skip(), None);
        assert_eq!(parked(&job(Channel::Sms), provider_gone()).skip(), Some(Skip::ProviderGone));
    }

    #[test]
    fn a_redriven_job_keeps_its_attempt_and_forgets_refusals() {
        for (obstacles, only) in [(Obstacles::default(), Some("main")), (provider_gone(), None)] {
            let message = job(Channel::Email);
            let redriven = parked(&message, obstacles).redriven(NOW).unwrap();
            let envelope = Envelope::decode(&redriven.message).unwrap();
            assert_eq!((envelope.id, envelope.caused_by, envelope.at), (redriven.id, Some(JOB), NOW));
            assert_ne!(redriven.id, JOB, "a repeated id would be dropped as a duplicate");
            let Event::DeliveryJob(job) = envelope.event else { panic!("not a job") };
            assert_eq!((job.attempt, job.route.only.as_deref()), (9, only));
            assert_eq!((job.route.keyed, job.route.passed_over.len()), (only.is_some(), 0));
        }
    }

    #[test]
    fn a_message_that_is_no_job_is_published_as_it_was() {
        let redriven = parked(b"of a newer release", Obstacles::default()).redriven(NOW).unwrap();
        assert_eq!(redriven.message, b"of a newer release");
    }
}
