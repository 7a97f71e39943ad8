use std::cmp::Ordering;
use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, pull};
use async_nats::jetstream::stream::{Info, RawMessageErrorKind};
use domain::StreamName;
use tokio::time::{Instant, sleep, timeout_at};

use crate::connection::EventLog;
use crate::error::Error;
use crate::origin::Origin;
use crate::pull::{Answer, EndCondition, Pull};
use crate::record::Record;
use crate::stream::created_at;

const LONGEST_WAIT: Duration = Duration::from_secs(1);
const REQUEST_BATCH: usize = 1000;
const REQUEST_EXPIRES: Duration = Duration::from_secs(2);
/// Time without a record after which the reader checks whether the stream has grown.
const NO_PROGRESS: Duration = Duration::from_secs(3);
/// Time without a request after which the server forgets a consumer.
const FORGET_AFTER: Duration = Duration::from_secs(30);
const PAUSE_AFTER_LOSS: Duration = Duration::from_millis(250);

/// Reads every record of a stream exactly once, in order and without gaps. A short-lived consumer is replaced if it is lost, leaves a gap,
/// or stops while the stream grows. The reader sends no acknowledgements, but keeps its own position.
pub struct Reader {
    log: EventLog,
    stream: StreamName,
    next: u64,
    batch: Vec<Record>,
    /// Unix milliseconds; identifies the stream.
    created_at: Option<i64>,
    session: Option<Session>,
}

struct Session {
    pull: Pull,
    progress_at: Instant,
}

impl EventLog {
    /// Starts at sequence `from_seq`; 0 means 1. Sends no request before the first call of [`next_batch`](Reader::next_batch).
    #[must_use]
    pub fn reader(&self, stream: StreamName, from_seq: u64) -> Reader {
        let next = from_seq.max(1);
        Reader { log: self.clone(), stream, next, batch: Vec::new(), created_at: None, session: None }
    }
}

impl Reader {
    /// Waits up to a second for the next record, then collects up to `max` records for at most `linger`. No record is lost if the future is
    /// dropped. A failing call takes at least 250 ms.
    ///
    /// # Errors
    /// Returns [`Error::Purged`], [`Error::Rewound`] or [`Error::Replaced`], then in every further call too, if the stream is no longer the
    /// one read so far.
    pub async fn next_batch(&mut self, max: usize, linger: Duration) -> Result<Vec<Record>, Error> {
        let mut until = Instant::now() + if self.batch.is_empty() { LONGEST_WAIT } else { linger };
        while self.batch.len() < max {
            match self.next_record(until).await {
                Ok(Some(record)) => {
                    if self.batch.is_empty() {
                        until = Instant::now() + linger;
                    }
                    self.next = record.seq + 1;
                    self.batch.push(record);
                }
                Ok(None) => break,
                // Return the records that were read before the error. The next call returns the error.
                Err(_) if !self.batch.is_empty() => break,
                Err(error) => {
                    sleep(PAUSE_AFTER_LOSS).await;
                    return Err(error);
                }
            }
        }
        Ok(std::mem::take(&mut self.batch))
    }

    async fn next_record(&mut self, until: Instant) -> Result<Option<Record>, Error> {
        loop {
            if self.session.is_none() {
                self.session = Some(self.open_session().await?);
            }
            let Some(session) = &mut self.session else {
                continue;
            };
            let Ok(answer) = timeout_at(until, session.pull.answer()).await else {
                return Ok(None);
            };
            let end = match answer {
                Answer::Message(message) => {
                    let Some(record) = record(message) else { continue };
                    match record.seq.cmp(&self.next) {
                        Ordering::Less => continue,
                        Ordering::Equal => {
                            session.progress_at = Instant::now();
                            return Ok(Some(record));
                        }
                        Ordering::Greater => self.explain_gap(record.seq).await?,
                    }
                }
                Answer::Over | Answer::Silence => self.ask_again().await?,
                Answer::Broken(reason) => Some(reason),
            };
            if let Some(reason) = end {
                tracing::warn!(
                    stream = %self.stream, next = self.next, reason,
                    "a reader lost its consumer; creating another"
                );
                self.session = None;
                sleep(PAUSE_AFTER_LOSS).await;
                if Instant::now() >= until {
                    return Ok(None);
                }
            }
        }
    }

    async fn open_session(&mut self) -> Result<Session, Error> {
        self.check_stream(&self.log.info(self.stream).await?)?;
        let config = pull::Config {
            deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: self.next },
            ack_policy: AckPolicy::None,
            inactive_threshold: FORGET_AFTER,
            memory_storage: true,
            num_replicas: 1,
            ..pull::Config::default()
        };
        let handle = self.log.handle(self.stream).await?;
        let action = format!("create a reader of {}", self.stream);
        let consumer = self.log.with_timeout(action, handle.create_consumer(config)).await?;
        let mut pull = Pull::open(&self.log, consumer).await?;
        pull.request(&self.log, REQUEST_BATCH, REQUEST_EXPIRES, EndCondition::WhenFull).await?;
        Ok(Session { pull, progress_at: Instant::now() })
    }

    fn check_stream(&mut self, info: &Info) -> Result<(), Error> {
        let stream = self.stream.to_string();
        if *self.created_at.get_or_insert(created_at(info)) != created_at(info) {
            return Err(Error::Replaced { stream });
        }
        let first = info.state.first_sequence;
        let last = info.state.last_sequence;
        if self.next > last + 1 {
            return Err(Error::Rewound { stream, read: self.next - 1, last });
        }
        if self.next < first {
            return Err(Error::Purged { stream, wanted: self.next, first });
        }
        Ok(())
    }

    /// Returns a reason to replace the consumer if the expected record was only lost in transit, so that the new one delivers it. Fails if
    /// it was removed from the stream.
    async fn explain_gap(&mut self, found: u64) -> Result<Option<String>, Error> {
        let handle = self.log.handle(self.stream).await?;
        let is_there = async {
            match handle.get_raw_message(self.next).await {
                Ok(_) => Ok(true),
                Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => Ok(false),
                Err(error) => Err(error),
            }
        };
        let action = format!("look up record {} of {}", self.next, self.stream);
        if self.log.with_timeout(action, is_there).await? {
            return Ok(Some(format!("record {found} came too early")));
        }
        // `check_stream` returns an error with the first remaining sequence. While a stream is purged, a consumer may skip
        // further records, so `found` need not be that sequence.
        self.check_stream(&self.log.info(self.stream).await?)?;
        Err(Error::Purged { stream: self.stream.to_string(), wanted: self.next, first: found })
    }

    /// Returns a reason to replace a consumer that delivers nothing although the stream has further records.
    async fn ask_again(&mut self) -> Result<Option<String>, Error> {
        let Some(session) = &mut self.session else {
            return Ok(None);
        };
        if session.progress_at.elapsed() >= NO_PROGRESS {
            let last = self.log.info(self.stream).await?.state.last_sequence;
            if last >= self.next {
                return Ok(Some(format!("it delivers nothing, although the stream has reached {last}")));
            }
            session.progress_at = Instant::now();
        }
        session.pull.request(&self.log, REQUEST_BATCH, REQUEST_EXPIRES, EndCondition::WhenFull).await?;
        Ok(None)
    }
}

fn record(message: async_nats::Message) -> Option<Record> {
    let origin = Origin::parse(message.reply.as_ref()?)?;
    Some(Record { seq: origin.seq, payload: message.payload, published_at: origin.published_at })
}
