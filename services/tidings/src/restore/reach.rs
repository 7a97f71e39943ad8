//! From where to where the log is to be read, and whether it is all there.

use std::collections::HashMap;

use anyhow::ensure;
use domain::{StreamName, Timestamp};
use event_log::EventLog;
use store::Store;
use store::inbox::projection::INBOX;
use store::webhooks::WEBHOOKS;

/// What is to be read of a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    pub(super) stream: StreamName,
    /// The first sequence that the backup may not know.
    pub(super) from: u64,
    /// The last one of the stream.
    pub(super) to: u64,
    /// The last one that a worker may have had, of a stream of jobs.
    pub(super) handed_out: u64,
}

impl Range {
    pub(super) fn messages(&self) -> u64 {
        (self.to + 1).saturating_sub(self.from)
    }
}

/// What is to be read of every stream.
#[derive(Debug)]
pub(super) struct Reach {
    pub(super) ranges: Vec<Range>,
    /// When the backup was still at work, as far as its marks say.
    pub(super) marked_at: Option<Timestamp>,
}

impl Reach {
    /// Finds out what the database knows of each stream.
    ///
    /// # Errors
    /// A stream begins after that: what was between is lost.
    pub(super) async fn of(store: &Store, log: &EventLog, partitions: u32) -> anyhow::Result<Reach> {
        let marks: HashMap<StreamName, _> =
            store.log_marks().await?.into_iter().map(|mark| (mark.stream, mark)).collect();
        let mut ranges = Vec::new();
        for stream in StreamName::all(partitions) {
            let state = log.state(stream).await?;
            let known = match stream {
                StreamName::Inbox(_) => store.checkpoint(INBOX, stream).await?,
                _ => marks.get(&stream).map_or(0, |mark| mark.seq),
            };
            let told = match stream {
                StreamName::Inbox(_) | StreamName::Outcome => store.checkpoint(WEBHOOKS, stream).await?,
                _ => 0,
            };
            let needed = if told > 0 { told.min(known) } else { known };
            ensure!(
                state.first_seq <= needed + 1,
                "the log does not reach back to the backup: stream {stream} begins at {}, and the backup knows it up to \
                 {needed} only. Restore a younger backup, or a copy of the log that begins earlier; what was accepted, \
                 sent and erased between the two is not known otherwise",
                state.first_seq
            );
            let handed_out = match durable_of(stream) {
                Some(durable) => {
                    log.consumer_progress(stream, durable).await?.map_or(0, |place| place.delivered)
                }
                None => 0,
            };
            ranges.push(Range { stream, from: known + 1, to: state.last_seq, handed_out });
        }
        let marked_at = marks.values().map(|mark| mark.at).max();
        Ok(Reach { ranges, marked_at })
    }

    /// The ranges of the streams that `are_meant`.
    pub(super) fn of_streams(&self, are_meant: impl Fn(StreamName) -> bool) -> impl Iterator<Item = Range> {
        self.ranges.iter().copied().filter(move |range| are_meant(range.stream))
    }
}

/// The durable consumer of a stream.
pub(super) fn durable_of(stream: StreamName) -> Option<&'static str> {
    match stream {
        StreamName::Send(_) => Some(dispatcher::DURABLE),
        StreamName::Job(channel, _) => Some(channel.as_str()),
        StreamName::Inbox(_) | StreamName::Outcome => None,
    }
}
