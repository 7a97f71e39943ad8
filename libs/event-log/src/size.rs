use async_nats::jetstream::stream::{Config, Info};
use domain::StreamName;

use crate::connection::EventLog;
use crate::error::{DeclareError, Error};
use crate::stream::refuse_difference;

/// Old servers remove messages beyond a new limit, so it must be at least this multiple of the messages in the stream. That leaves room for
/// messages that arrive between the check and the change.
const ROOM: u64 = 2;

/// None leaves a value unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamSize {
    pub max_messages: Option<i64>,
    pub replicas: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResizedStream {
    pub stream: StreamName,
    pub max_messages: (i64, i64),
    pub replicas: (usize, usize),
}

impl EventLog {
    /// Returns the streams that changed. The messages stay, and clients can keep using the streams.
    ///
    /// # Errors
    /// Returns [`DeclareError::TooSmall`] if a stream holds too many messages for its new limit; no stream is changed then.
    pub async fn resize(
        &self,
        names: &[StreamName],
        size: StreamSize,
    ) -> Result<Vec<ResizedStream>, DeclareError> {
        let mut changes = Vec::new();
        for &stream in names {
            let found = self.info(stream).await?;
            let wanted = of_size(&found.config, size);
            let before = &found.config;
            let resized = ResizedStream {
                stream,
                max_messages: (before.max_messages, wanted.max_messages),
                replicas: (before.num_replicas, wanted.num_replicas),
            };
            if before.max_messages != wanted.max_messages || before.num_replicas != wanted.num_replicas {
                refuse_impossible(&resized, &found)?;
                changes.push((resized, wanted));
            }
        }
        for (resized, wanted) in &changes {
            self.update(resized.stream, wanted).await?;
        }
        Ok(changes.into_iter().map(|(resized, _)| resized).collect())
    }

    async fn update(&self, stream: StreamName, wanted: &Config) -> Result<(), DeclareError> {
        let answer =
            self.with_timeout(format!("resize {stream}"), self.context.update_stream(wanted)).await?;
        refuse_difference(wanted, &answer.config)
    }
}

fn of_size(found: &Config, size: StreamSize) -> Config {
    Config {
        max_messages: size.max_messages.unwrap_or(found.max_messages),
        num_replicas: size.replicas.unwrap_or(found.num_replicas),
        ..found.clone()
    }
}

fn refuse_impossible(resized: &ResizedStream, found: &Info) -> Result<(), DeclareError> {
    let ResizedStream { stream, max_messages: (limit_before, limit), replicas: (replicas_before, replicas) } =
        *resized;
    // A single server accepts a number of replicas that it cannot provide, so refuse that number here.
    let is_alone = found.cluster.as_ref().is_none_or(|cluster| cluster.name.is_none());
    if replicas > replicas_before && is_alone {
        let action = format!("give {stream} {replicas} replicas");
        return Err(
            Error::unavailable(action, "it is on a single server, and each copy needs its own").into()
        );
    }
    let held = found.state.messages;
    let is_growing = limit_before > 0 && limit >= limit_before;
    let least = held.saturating_mul(ROOM);
    if is_growing || u64::try_from(limit).is_ok_and(|limit| least <= limit) {
        return Ok(());
    }
    Err(DeclareError::TooSmall { stream: stream.to_string(), held, limit, least })
}
