//! Back-pressure from nearly full streams: sends stay in the log and timers in the database, so that the remaining room is kept for
//! outcomes and erasures.

use domain::{Lane, StreamName};
use event_log::EventLog;
use metrics::gauge;
use service_kit::fullness::{DISPATCHER_STOPS, SENDS_STOP};
use service_kit::metrics::DISPATCH_PAUSED;
use service_kit::{Context, Fullness};

/// Fill of a send stream, as a fraction, at which even timers that continue an accepted send are no longer published.
const CRAMMED: f64 = 0.99;
/// Fraction of the store that jobs, inbox events and outcomes may occupy although sends have filled the rest. Planning sends is
/// the only way to make room then.
const WORK_SHARE: u64 = 10;

/// Fill of all streams. Clones share the state.
#[derive(Clone)]
pub(crate) struct Backpressure {
    fullness: Fullness,
}

impl Backpressure {
    pub(crate) fn new(partitions: u32) -> Backpressure {
        Backpressure { fullness: Fullness::new(DISPATCHER_STOPS, StreamName::all(partitions)) }
    }

    pub(crate) async fn refresh(&self, log: &EventLog) {
        self.fullness.refresh(log).await;
    }

    pub(crate) async fn follow(self, context: Context) -> anyhow::Result<()> {
        self.fullness.follow_until(context.tasks.token().clone(), context.log.clone()).await
    }

    /// Ignores the lane's own send stream, because only planning makes room there.
    pub(crate) fn full_stream_for(&self, lane: Lane) -> Option<StreamName> {
        let added_to = |stream: &StreamName| is_added_to(*stream, lane);
        let missing = if self.is_filled_by_sends() {
            self.fullness.above(DISPATCHER_STOPS).find(added_to)
        } else {
            self.fullness.full().find(added_to)
        };
        gauge!(DISPATCH_PAUSED, "lane" => lane.as_str()).set(f64::from(u8::from(missing.is_some())));
        missing
    }

    /// Excludes the outcome stream, which always accepts timers. A send stream accepts timers until [`CRAMMED`]: the gateway may fill it to
    /// 90 %, and the timers that continue accepted sends must still fit. If the store is full of sends, timers with further sends wait
    /// until some sends are planned.
    pub(crate) fn closed_to_timers(&self) -> Vec<StreamName> {
        let is_send = |stream: &StreamName| matches!(stream, StreamName::Send(_));
        let sends = if self.fullness.store().fill() >= SENDS_STOP { 0.0 } else { CRAMMED };
        let crammed = self.fullness.above(sends).filter(is_send);
        self.fullness.full().filter(|&stream| is_closable(stream)).chain(crammed).collect()
    }

    pub(crate) fn crowded(&self, share: f64) -> impl Iterator<Item = StreamName> {
        let share = if self.fullness.store().fill() >= share { 0.0 } else { share };
        self.fullness.above(share)
    }

    fn is_filled_by_sends(&self) -> bool {
        let work = self.fullness.bytes(|stream| !matches!(stream, StreamName::Send(_)));
        self.fullness.store().limit.is_some_and(|limit| work < limit / WORK_SHARE)
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
