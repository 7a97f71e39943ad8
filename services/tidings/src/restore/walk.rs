//! Reading a part of a stream, message by message, with word of how far it is.

use std::time::Duration;

use anyhow::Context as _;
use domain::event::DecodeError;
use domain::{Envelope, Timestamp};
use event_log::{EventLog, Reader};
use tokio::time::Instant;

use super::reach::Range;

/// Messages that are read at once. One may be a megabyte.
const BATCH: usize = 200;
const LINGER: Duration = Duration::from_millis(20);
/// Between two words of progress.
const TOLD_EVERY: Duration = Duration::from_secs(5);
/// Longest time without a message, where one must come.
const SILENCE: Duration = Duration::from_secs(60);

/// A part of a stream being read.
pub(super) struct Walk {
    range: Range,
    reader: Reader,
    /// The last sequence read.
    read: u64,
    told_at: Instant,
    /// Messages that no release can read: they were set aside, or will be.
    pub(super) unreadable: u64,
}

/// A message with its place.
pub(super) struct Found {
    pub(super) seq: u64,
    /// When the log got it.
    pub(super) stored_at: Timestamp,
    pub(super) envelope: Envelope,
}

impl Walk {
    pub(super) fn new(log: &EventLog, range: Range) -> Walk {
        let reader = log.reader(range.stream, range.from);
        if range.messages() > 0 {
            tell(&format!("reading {}: {} messages", range.stream, range.messages()));
        }
        Walk { range, reader, read: range.from - 1, told_at: Instant::now(), unreadable: 0 }
    }

    /// The next messages; None at the end. A batch may be empty.
    ///
    /// # Errors
    /// The log cannot be read, or a message is of a newer release.
    pub(super) async fn next(&mut self) -> anyhow::Result<Option<Vec<Found>>> {
        let begun = Instant::now();
        while self.read < self.range.to {
            let records = self.reader.next_batch(BATCH, LINGER).await;
            let records = match records {
                Err(error) if error.is_permanent() || begun.elapsed() > SILENCE => {
                    return Err(error).with_context(|| format!("{} cannot be read", self.range.stream));
                }
                Err(_) => continue,
                Ok(records) => records,
            };
            let Some(last) = records.last().map(|record| record.seq) else {
                anyhow::ensure!(begun.elapsed() < SILENCE, "{} ends before its end", self.range.stream);
                continue;
            };
            self.read = last;
            self.tell_progress();
            let mut found = Vec::with_capacity(records.len());
            for record in records.iter().filter(|record| record.seq <= self.range.to) {
                match Envelope::decode(&record.payload) {
                    Ok(envelope) => {
                        let stored_at = Timestamp::from_millis(record.published_at);
                        found.push(Found { seq: record.seq, stored_at, envelope });
                    }
                    Err(newer @ DecodeError::Newer { .. }) => {
                        return Err(newer).with_context(|| format!("{} {}", self.range.stream, record.seq));
                    }
                    Err(_) => self.unreadable += 1,
                }
            }
            return Ok(Some(found));
        }
        Ok(None)
    }

    fn tell_progress(&mut self) {
        if self.told_at.elapsed() >= TOLD_EVERY {
            self.told_at = Instant::now();
            let done = (self.read + 1).saturating_sub(self.range.from);
            tell(&format!("  {}: {done} of {}", self.range.stream, self.range.messages()));
        }
    }
}

/// A line of progress, beside the report.
pub(super) fn tell(line: &str) {
    eprintln!("tidings: {line}");
}
