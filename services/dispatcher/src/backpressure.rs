//! Back-pressure from full streams. If a stream lacks room for the dispatcher's messages, sends wait in the log and timers
//! in the database; the remaining room is for outcomes and erasures.

use domain::{Lane, StreamName};
use event_log::EventLog;
use metrics::gauge;
use service_kit::fullness::DISPATCHER_STOPS;
use service_kit::metrics::DISPATCH_PAUSED;
use service_kit::{Context, Fullness};

/// Fill of a send stream above which continuations of accepted sends wait for room, too.
const CRAMMED: f64 = 0.99;

/// Fill of all streams. Clones share it.
#[derive(Clone)]
pub(crate) struct Room {
    fullness: Fullness,
}

impl Room {
    /// Creates a state in which every stream has room.
    pub(crate) fn new(partitions: u32) -> Room {
        Room { fullness: Fullness::new(DISPATCHER_STOPS, StreamName::all(partitions)) }
    }

    /// Reads the fill of every stream once.
    pub(crate) async fn refresh(&self, log: &EventLog) {
        self.fullness.refresh(log).await;
    }

    /// Reads the fill of every stream each second until the process stops.
    pub(crate) async fn follow(self, context: Context) -> anyhow::Result<()> {
        self.fullness.follow_until(context.tasks.token().clone(), context.log.clone()).await
    }

    /// A nearly full stream that planning sends of the lane adds to, if any. The lane's send stream does not count: only
    /// planning makes room there.
    pub(crate) fn missing_for(&self, lane: Lane) -> Option<StreamName> {
        let missing = self.fullness.full().find(|&stream| is_added_to(stream, lane));
        gauge!(DISPATCH_PAUSED, "lane" => lane.as_str()).set(f64::from(u8::from(missing.is_some())));
        missing
    }

    /// Streams into which no timer of a send is published now. The outcome stream is never closed. Send streams are closed
    /// only above [`CRAMMED`]: the gateway keeps filling them, so a lower limit would leave no room for continuations of
    /// sends accepted earlier.
    pub(crate) fn closed_to_timers(&self) -> Vec<StreamName> {
        let crammed = self.fullness.above(CRAMMED).filter(|&stream| matches!(stream, StreamName::Send(_)));
        self.fullness.full().filter(|&stream| is_closable(stream)).chain(crammed).collect()
    }

    /// Streams filled to at least this share.
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
    fn a_lane_waits_only_for_streams_that_it_adds_to() {
        let lane = Lane::Bulk;
        assert!(is_added_to(StreamName::Inbox(3), lane) && is_added_to(StreamName::Outcome, lane));
        assert!(is_added_to(StreamName::Job(Channel::Sms, lane), lane));
        assert!(!is_added_to(StreamName::Job(Channel::Sms, Lane::Transactional), lane));
        assert!(!is_added_to(StreamName::Send(lane), lane));
    }
}
