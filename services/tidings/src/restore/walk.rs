use std::time::Duration;

use anyhow::Context as _;
use domain::Envelope;
use domain::event::{DecodeError, bundle};
use event_log::{EventLog, Reader};
use tokio::time::Instant;

use super::reach::Range;

/// A message can be as large as one megabyte.
const BATCH: usize = 200;
const LINGER: Duration = Duration::from_millis(20);
const PROGRESS_EVERY: Duration = Duration::from_secs(5);
/// Time without a message after which reading fails, if more messages are expected.
const SILENCE: Duration = Duration::from_secs(60);

pub(super) struct Walk {
    range: Range,
    reader: Reader,
    /// Last sequence that was read.
    read: u64,
    printed_at: Instant,
    /// Number of messages that no release can decode. The stream's consumer has parked them or will park them.
    pub(super) unreadable: u64,
}

pub(super) struct FoundMessage {
    pub(super) seq: u64,
    pub(super) envelope: Envelope,
}

impl Walk {
    pub(super) fn new(log: &EventLog, range: Range) -> Walk {
        let reader = log.reader(range.stream, range.from);
        if range.messages() > 0 {
            print_progress(&format!("reading {}: {} messages", range.stream, range.messages()));
        }
        Walk { range, reader, read: range.from - 1, printed_at: Instant::now(), unreadable: 0 }
    }

    /// Returns None at the end of the range; a batch may be empty. Fails if a message has the format of a newer release.
    pub(super) async fn next(&mut self) -> anyhow::Result<Option<Vec<FoundMessage>>> {
        let begun = Instant::now();
        while self.read < self.range.to {
            let records = self.reader.next_batch(BATCH, LINGER).await;
            let records = match records {
                Err(error) if error.is_permanent() || begun.elapsed() > SILENCE => {
                    return Err(error).with_context(|| format!("cannot read {}", self.range.stream));
                }
                Err(_) => continue,
                Ok(records) => records,
            };
            let Some(last) = records.last().map(|record| record.seq) else {
                anyhow::ensure!(
                    begun.elapsed() < SILENCE,
                    "{} delivered no message for {SILENCE:?}, although {} more are expected",
                    self.range.stream,
                    self.range.to - self.read
                );
                continue;
            };
            self.read = last;
            self.print_progress();
            let mut found = Vec::with_capacity(records.len());
            for record in records.iter().filter(|record| record.seq <= self.range.to) {
                match bundle::decode(&record.payload) {
                    Ok(parts) => found.extend(
                        parts
                            .into_iter()
                            .map(|part| FoundMessage { seq: record.seq, envelope: part.envelope }),
                    ),
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

    fn print_progress(&mut self) {
        if self.printed_at.elapsed() >= PROGRESS_EVERY {
            self.printed_at = Instant::now();
            let done = (self.read + 1).saturating_sub(self.range.from);
            print_progress(&format!("  {}: {done} of {}", self.range.stream, self.range.messages()));
        }
    }
}

/// Uses standard error, because the report goes to standard output.
pub(super) fn print_progress(line: &str) {
    eprintln!("tidings: {line}");
}
