//! How much streams hold, in how many copies: what of their declaration an installation at work may change.

use async_nats::jetstream::stream::{Config, Info};
use domain::StreamName;

use crate::connection::EventLog;
use crate::error::{DeclareError, Error};
use crate::stream::refuse_difference;

/// A smaller stream has to have this many times as much room as it holds. What comes in between the look at it and the
/// change must find a place: old servers remove messages that are beyond a new limit.
const ROOM: u64 = 2;

/// How large streams are to be. None leaves it as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamSize {
    /// Messages that a stream holds before it refuses more.
    pub max_messages: Option<i64>,
    /// Copies of a stream, 1 to 5.
    pub replicas: Option<usize>,
}

/// A stream whose size was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resized {
    /// The stream's name.
    pub stream: StreamName,
    /// Messages that it held at most before, and holds now.
    pub max_messages: (i64, i64),
    /// Its copies before, and now.
    pub replicas: (usize, usize),
}

impl EventLog {
    /// Gives streams this size, and returns those that had another. Their messages stay, and whoever uses them goes on.
    ///
    /// # Errors
    /// [`DeclareError::TooSmall`] when one holds too much for that; nothing was changed then. Also when the server cannot
    /// be asked, or cannot give a stream that size.
    pub async fn resize(&self, names: &[StreamName], size: StreamSize) -> Result<Vec<Resized>, DeclareError> {
        let mut changes = Vec::new();
        for &stream in names {
            let found = self.info(stream).await?;
            let wanted = of_size(&found.config, size);
            let (was, is) = (&found.config, &wanted);
            let resized = Resized {
                stream,
                max_messages: (was.max_messages, is.max_messages),
                replicas: (was.num_replicas, is.num_replicas),
            };
            if was.max_messages != is.max_messages || was.num_replicas != is.num_replicas {
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
        let answer = self.bounded(format!("resize {stream}"), self.context.update_stream(wanted)).await?;
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

fn refuse_impossible(resized: &Resized, found: &Info) -> Result<(), DeclareError> {
    let Resized { stream, max_messages: (limit_before, limit), replicas: (replicas_before, replicas) } =
        *resized;
    // A lone server says yes to copies that it cannot make.
    let is_alone = found.cluster.as_ref().is_none_or(|cluster| cluster.name.is_none());
    if replicas > replicas_before && is_alone {
        let action = format!("give {stream} {replicas} replicas");
        return Err(Error::unavailable(action, "its server is alone, and a copy needs another").into());
    }
    let (held, is_growing) = (found.state.messages, limit_before > 0 && limit >= limit_before);
    let least = held.saturating_mul(ROOM);
    if is_growing || u64::try_from(limit).is_ok_and(|limit| least <= limit) {
        return Ok(());
    }
    Err(DeclareError::TooSmall { stream: stream.to_string(), held, limit, least })
}
