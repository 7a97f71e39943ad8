//! Ranges of the log that a restore reads, and the check that the log still contains them.

use std::collections::HashMap;

use anyhow::ensure;
use domain::{StreamName, Timestamp};
use event_log::EventLog;
use store::Store;
use store::inbox::projection::INBOX;
use store::webhooks::WEBHOOKS;

#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    pub(super) stream: StreamName,
    /// First sequence whose message the backup may lack.
    pub(super) from: u64,
    pub(super) to: u64,
    /// Last sequence that was delivered to the stream's durable consumer; 0 if it has no such consumer.
    pub(super) handed_out: u64,
}

impl Range {
    pub(super) fn messages(&self) -> u64 {
        (self.to + 1).saturating_sub(self.from)
    }
}

#[derive(Debug)]
pub(super) struct Reach {
    pub(super) ranges: Vec<Range>,
    /// Last time at which the backed-up database is known to have been in use.
    pub(super) marked_at: Option<Timestamp>,
}

impl Reach {
    /// Fails if the log has already deleted some of the messages that are newer than the backup.
    pub(super) async fn of(store: &Store, log: &EventLog, partitions: u32) -> anyhow::Result<Reach> {
        let marks: HashMap<StreamName, _> =
            store.database().log_marks().await?.into_iter().map(|mark| (mark.stream, mark)).collect();
        let mut ranges = Vec::new();
        for stream in in_order(partitions) {
            let state = log.state(stream).await?;
            let known = match stream {
                StreamName::Inbox(_) => store.database().checkpoint(INBOX, stream).await?,
                _ => marks.get(&stream).map_or(0, |mark| mark.seq),
            };
            let reported = match stream {
                StreamName::Inbox(_) | StreamName::Outcome => {
                    store.database().checkpoint(WEBHOOKS, stream).await?
                }
                _ => 0,
            };
            let needed = if reported > 0 { reported.min(known) } else { known };
            ensure!(
                state.first_seq <= needed + 1,
                "the log does not reach back to the backup: stream {stream} begins at {}, but the backup contains its events \
                 only up to {needed}. Restore a newer backup, or a copy of the log that begins earlier; there is no other \
                 record of what was accepted, sent and erased between the two",
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
}

/// Erasures come before the plans that create users; sends and jobs come before the plans that refer to them.
fn in_order(partitions: u32) -> Vec<StreamName> {
    let mut streams = StreamName::all(partitions);
    streams.sort_by_key(|stream| match stream {
        StreamName::Inbox(_) => 0,
        StreamName::Send(_) => 1,
        StreamName::Job(..) => 2,
        StreamName::Outcome => 3,
    });
    streams
}

pub(super) fn durable_of(stream: StreamName) -> Option<&'static str> {
    match stream {
        StreamName::Send(_) => Some(dispatcher::DURABLE),
        StreamName::Job(channel, _) => Some(channel.as_str()),
        StreamName::Inbox(_) | StreamName::Outcome => None,
    }
}
