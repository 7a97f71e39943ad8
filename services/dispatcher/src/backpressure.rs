//! Back-pressure from nearly full streams. If a stream has little room left, sends and timers that would add messages to it have
//! to wait: sends stay in the log, timers in the database. The remaining room is kept for outcomes and erasures.

use domain::{Lane, StreamName};
use event_log::EventLog;
use metrics::gauge;
use service_kit::fullness::DISPATCHER_STOPS;
use service_kit::metrics::DISPATCH_PAUSED;
use service_kit::{Context, Fullness};

/// Fill of a send stream at which timers are no longer published to it, not even those that continue accepted sends.
const CRAMMED: f64 = 0.99;

/// Fill of all streams. Clones share the state.
#[derive(Clone)]
pub(crate) struct Backpressure {
    fullness: Fullness,
}

impl Backpressure {
    /// Creates a state in which every stream has room.
    pub(crate) fn new(partitions: u32) -> Backpressure {
        Backpressure { fullness: Fullness::new(DISPATCHER_STOPS, StreamName::all(partitions)) }
    }

    /// Reads the fill of every stream once.
    pub(crate) async fn refresh(&self, log: &EventLog) {
        self.fullness.refresh(log).await;
    }

    /// Reads the fill of every stream each second until the process stops.
    pub(crate) async fn follow(self, context: Context) -> anyhow::Result<()> {
        self.fullness.follow_until(context.tasks.token().clone(), context.log.clone()).await
    }

    /// Returns a nearly full stream to which planned sends of the lane add messages, if there is one. The lane's own send
    /// stream does not count, because only planning makes room there.
    pub(crate) fn full_stream_for(&self, lane: Lane) -> Option<StreamName> {
        let missing = self.fullness.full().find(|&stream| is_added_to(stream, lane));
        gauge!(DISPATCH_PAUSED, "lane" => lane.as_str()).set(f64::from(u8::from(missing.is_some())));
        missing
    }

    /// Returns the streams to which no due timer is published now. The outcome stream always accepts timers. A send stream
    /// accepts timers until its fill reaches [`CRAMMED`]. The gateway may fill it to 90 %, and the timers that continue accepted
    /// sends must still fit.
    pub(crate) fn closed_to_timers(&self) -> Vec<StreamName> {
        let crammed = self.fullness.above(CRAMMED).filter(|&stream| matches!(stream, StreamName::Send(_)));
        self.fullness.full().filter(|&stream| is_closable(stream)).chain(crammed).collect()
    }

    /// Returns the streams whose fill is at least `share`.
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
