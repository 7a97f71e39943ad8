use std::time::Duration;

use async_nats::jetstream::{ErrorCode, context, stream};
use domain::StreamName;
use tokio::time::sleep;

use crate::connection::EventLog;
use crate::error::{DeclareError, Error};
use crate::record::Record;

const DUPLICATE_WINDOW: Duration = Duration::from_secs(10 * 60);

const IN_THE_MAKING: Duration = Duration::from_millis(10);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamIdentity {
    pub name: StreamName,
    /// Unix milliseconds. A stream with the same name but a different creation time is a different stream.
    pub created_at: i64,
    /// One above `last_seq` if the stream is empty but has held messages.
    pub first_seq: u64,
    /// Highest sequence ever assigned; 0 before the first message.
    pub last_seq: u64,
}

/// Creation time and sequences are those of [`StreamIdentity`].
#[derive(Clone, Debug, PartialEq)]
pub struct StreamState {
    pub created_at: i64,
    pub messages: u64,
    pub first_seq: u64,
    pub last_seq: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// The higher share, 0 to 1, of the stream's limits of messages and bytes. The store of the server may be fuller; see
    /// [`store_use`](EventLog::store_use).
    pub fill: f64,
}

impl EventLog {
    /// Creates missing streams. An existing stream is never changed, and may differ in size; see [`resize`](Self::resize). Several
    /// processes may call this at once.
    ///
    /// # Errors
    /// Returns [`DeclareError::Differs`] if a stream differs otherwise, or the server ignored a field.
    pub async fn declare(&self, names: &[StreamName]) -> Result<Vec<StreamIdentity>, DeclareError> {
        let mut identities = Vec::with_capacity(names.len());
        for &name in names {
            let found = match self.find(name).await? {
                Some(found) => {
                    let wanted = of_the_size_of(&found.config, self.declaration(name));
                    refuse_difference(&wanted, &found.config)?;
                    found
                }
                // Boxed, because this future is large and needed only once per stream.
                None => Box::pin(self.create(name)).await?,
            };
            identities.push(StreamIdentity {
                name,
                created_at: created_at(&found),
                first_seq: found.state.first_sequence,
                last_seq: found.state.last_sequence,
            });
        }
        Ok(identities)
    }

    pub async fn state(&self, stream: StreamName) -> Result<StreamState, Error> {
        let info = self.info(stream).await?;
        Ok(StreamState {
            created_at: created_at(&info),
            messages: info.state.messages,
            first_seq: info.state.first_sequence,
            last_seq: info.state.last_sequence,
            bytes: info.state.bytes,
            fill: fill(info.state.messages, info.config.max_messages)
                .max(fill(info.state.bytes, info.config.max_bytes)),
        })
    }

    /// Returns the number of removed messages. The sequences of later messages do not change.
    pub async fn purge_below(&self, stream: StreamName, seq: u64) -> Result<u64, Error> {
        // Do not purge beyond the end of the stream. Otherwise the server would skip the sequences up to `seq`.
        let end = self.info(stream).await?.state.last_sequence + 1;
        let keep_from = seq.min(end);
        // The server would treat 0 as a request to remove all messages.
        if keep_from <= 1 {
            return Ok(0);
        }
        let action = format!("purge {stream}");
        let handle = self.handle(stream).await?;
        let purged = self.with_timeout(action, handle.purge().sequence(keep_from).into_future()).await?;
        Ok(purged.purged)
    }

    /// Unix milliseconds; None if the stream does not hold the message.
    pub async fn published_at(&self, stream: StreamName, seq: u64) -> Result<Option<i64>, Error> {
        Ok(self.message(stream, seq).await?.map(|record| record.published_at))
    }

    pub async fn message(&self, stream: StreamName, seq: u64) -> Result<Option<Record>, Error> {
        use stream::LastRawMessageErrorKind::NoMessageFound;
        let handle = self.handle(stream).await?;
        let answer = async {
            match handle.get_raw_message(seq).await {
                Ok(message) => Ok(Some(Record {
                    seq: message.sequence,
                    published_at: unix_millis(message.time.unix_timestamp_nanos()),
                    payload: message.payload,
                })),
                Err(error) if error.kind() == NoMessageFound => Ok(None),
                Err(error) => Err(error),
            }
        };
        self.with_timeout(format!("read message {seq} of {stream}"), answer).await
    }

    fn declaration(&self, name: StreamName) -> stream::Config {
        stream::Config {
            name: name.to_string(),
            subjects: vec![name.to_string()],
            storage: stream::StorageType::File,
            retention: stream::RetentionPolicy::Limits,
            discard: stream::DiscardPolicy::New,
            max_messages: self.max_messages,
            max_bytes: -1,
            max_messages_per_subject: -1,
            max_message_size: -1,
            max_consumers: -1,
            max_age: Duration::ZERO,
            duplicate_window: DUPLICATE_WINDOW,
            num_replicas: self.replicas,
            ..stream::Config::default()
        }
    }

    async fn find(&self, name: StreamName) -> Result<Option<stream::Info>, Error> {
        use context::GetStreamErrorKind::JetStream;
        let answer = async {
            loop {
                match self.context.get_stream(name.to_string()).await {
                    // While the server is still creating a stream, it reports a creation time in the year 1.
                    Ok(stream) if stream.cached_info().created.year() <= 1 => sleep(IN_THE_MAKING).await,
                    Ok(stream) => return Ok(Some(stream.cached_info().clone())),
                    Err(error) => match error.kind() {
                        JetStream(cause) if cause.error_code() == ErrorCode::STREAM_NOT_FOUND => {
                            return Ok(None);
                        }
                        _ => return Err(error),
                    },
                }
            }
        };
        // Boxed, because this future is so large that it would make up most of every future that connects.
        self.with_timeout(format!("describe {name}"), Box::pin(answer)).await
    }

    async fn create(&self, name: StreamName) -> Result<stream::Info, DeclareError> {
        let declared = self.declaration(name);
        let answer = async {
            match self.context.create_stream(&declared).await {
                // Another process has created the stream. The comparison below shows whether it used the same declaration.
                Err(error) if is_taken(&error) && matches!(self.find(name).await, Ok(Some(_))) => Ok(()),
                answer => answer.map(drop),
            }
        };
        self.with_timeout(format!("create {name}"), answer).await?;
        let found = self.info(name).await?;
        refuse_difference(&declared, &found.config)?;
        Ok(found)
    }

    pub(crate) async fn info(&self, name: StreamName) -> Result<stream::Info, Error> {
        self.find(name)
            .await?
            .ok_or_else(|| Error::unavailable(format!("describe {name}"), "the stream does not exist"))
    }

    /// Sends no request to the server.
    pub(crate) async fn handle(&self, name: StreamName) -> Result<stream::Stream<()>, Error> {
        self.with_timeout(format!("name {name}"), self.context.get_stream_no_info(name.to_string())).await
    }
}

/// If two processes create the stream at the same moment, the server may report that the subjects, not the name, are in use.
fn is_taken(error: &context::CreateStreamError) -> bool {
    let context::CreateStreamErrorKind::JetStream(cause) = error.kind() else {
        return false;
    };
    [ErrorCode::STREAM_NAME_EXIST, ErrorCode::STREAM_SUBJECT_OVERLAP].contains(&cause.error_code())
}

/// Returns the declared configuration with the limits and replicas of the existing stream. A missing message limit does not replace the
/// declared one. Only operators set a limit of bytes.
fn of_the_size_of(found: &stream::Config, declared: stream::Config) -> stream::Config {
    let max_messages = if found.max_messages > 0 { found.max_messages } else { declared.max_messages };
    let max_bytes = if found.max_bytes > 0 { found.max_bytes } else { declared.max_bytes };
    stream::Config { max_messages, max_bytes, num_replicas: found.num_replicas, ..declared }
}

pub(crate) fn refuse_difference(wanted: &stream::Config, found: &stream::Config) -> Result<(), DeclareError> {
    let pairs = fields(wanted).into_iter().zip(fields(found));
    for ((field, wanted_value), (_, found_value)) in pairs {
        if wanted_value != found_value {
            return Err(DeclareError::Differs {
                stream: wanted.name.clone(),
                field,
                wanted: wanted_value,
                found: found_value,
            });
        }
    }
    Ok(())
}

fn fields(config: &stream::Config) -> [(&'static str, String); 21] {
    [
        ("subjects", format!("{:?}", config.subjects)),
        ("storage", format!("{:?}", config.storage)),
        ("retention", format!("{:?}", config.retention)),
        ("discard", format!("{:?}", config.discard)),
        ("discard_new_per_subject", config.discard_new_per_subject.to_string()),
        ("max_msgs", config.max_messages.to_string()),
        ("max_bytes", config.max_bytes.to_string()),
        ("max_age", format!("{:?}", config.max_age)),
        ("max_msgs_per_subject", config.max_messages_per_subject.to_string()),
        ("max_msg_size", config.max_message_size.to_string()),
        ("max_consumers", config.max_consumers.to_string()),
        ("duplicate_window", format!("{:?}", config.duplicate_window)),
        ("num_replicas", config.num_replicas.to_string()),
        ("no_ack", config.no_ack.to_string()),
        ("sealed", config.sealed.to_string()),
        ("deny_purge", config.deny_purge.to_string()),
        ("allow_rollup_hdrs", config.allow_rollup.to_string()),
        ("persist_mode", format!("{:?}", config.persist_mode)),
        ("republish", format!("{:?}", config.republish)),
        ("mirror", format!("{:?}", config.mirror)),
        ("sources", format!("{:?}", config.sources)),
    ]
}

pub(crate) fn created_at(info: &stream::Info) -> i64 {
    unix_millis(info.created.unix_timestamp_nanos())
}

/// The range of `i64` covers 292 million years.
pub(crate) fn unix_millis(nanos: i128) -> i64 {
    i64::try_from(nanos / 1_000_000).unwrap_or(i64::MAX)
}

#[allow(clippy::cast_precision_loss, reason = "a share needs no more than 52 bits")]
fn fill(held: u64, limit: i64) -> f64 {
    if limit <= 0 { 0.0 } else { held as f64 / limit as f64 }
}
