//! Which streams have room for what the dispatcher adds. Where they have not, sends wait in the log and timers in the
//! database; the room that is left is for outcomes and erasures.

use domain::{Lane, StreamName};
use event_log::EventLog;
use metrics::gauge;
use service_kit::fullness::DISPATCHER_STOPS;
use service_kit::metrics::DISPATCH_PAUSED;
use service_kit::{Context, Fullness};

/// The share of a stream from which on chunks of accepted sends wait for more room, too.
const CRAMMED: f64 = 0.99;

/// How full the streams are. Clones share it.
#[derive(Clone)]
pub(crate) struct Room {
    fullness: Fullness,
}

impl Room {
    /// There is room as far as is known.
    pub(crate) fn new(partitions: u32) -> Room {
        Room { fullness: Fullness::new(DISPATCHER_STOPS, StreamName::all(partitions)) }
    }

    /// Looks at every stream once.
    pub(crate) async fn look(&self, log: &EventLog) {
        self.fullness.look(log).await;
    }

    /// Looks at every stream each second until the process stops.
    pub(crate) async fn follow(self, context: Context) -> anyhow::Result<()> {
        self.fullness.follow_until(context.tasks.token().clone(), context.log.clone()).await
    }

    /// A stream that planning sends of the lane adds to, and that is nearly full. The lane's own stream is none of them:
    /// only planning makes room there.
    pub(crate) fn missing_for(&self, lane: Lane) -> Option<StreamName> {
        let missing = self.fullness.full().find(|&stream| is_added_to(stream, lane));
        gauge!(DISPATCH_PAUSED, "lane" => lane.as_str()).set(f64::from(u8::from(missing.is_some())));
        missing
    }

    /// Streams into which no timer that belongs to a send is published now. Outcomes always are, and so are the chunks of sends
    /// that were accepted before: the gateway goes on filling their streams, and would leave them no room. A stream with
    /// hardly any left takes none.
    pub(crate) fn closed_to_timers(&self) -> Vec<StreamName> {
        let crammed = self.fullness.above(CRAMMED).filter(|&stream| matches!(stream, StreamName::Send(_)));
        self.fullness.full().filter(|&stream| is_closable(stream)).chain(crammed).collect()
    }

    /// The streams of which at least this share is used.
    pub(crate) fn above(&self, share: f64) -> impl Iterator<Item = StreamName> {
        self.fullness.above(share)
    }
}

fn is_added_to(stream: StreamName, lane: Lane) -> bool {
    match stream {
        StreamName::Send(_) => false,
        StreamName::Job(_, of) => of == lane,
        StreamName::Inbox(_) | StreamName::Outcome => true,
    }
}

fn is_closable(stream: StreamName) -> bool {
    matches!(stream, StreamName::Job(..) | StreamName::Inbox(_))
}

#[cfg(test)]
mod tests {
    use domain::Channel;

    use super::*;

    #[test]
    fn a_lane_waits_for_what_it_adds_to_alone() {
        let lane = Lane::Bulk;
        assert!(is_added_to(StreamName::Inbox(3), lane) && is_added_to(StreamName::Outcome, lane));
        assert!(is_added_to(StreamName::Job(Channel::Sms, lane), lane));
        assert!(!is_added_to(StreamName::Job(Channel::Sms, Lane::Transactional), lane));
        assert!(!is_added_to(StreamName::Send(lane), lane));
    }
}
