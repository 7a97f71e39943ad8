//! Checkpoints of the inbox projection and of webhooks.

use domain::StreamName;
use sqlx::PgExecutor;
use store::inbox::projection::INBOX;
use store::webhooks::WEBHOOKS;

/// Names of a projection and of a stream that it follows, such as `inbox` and `INBOX_0`.
pub type Place = (String, String);

/// Last sequence of a stream that a projection has committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    pub place: Place,
    pub seq: i64,
}

/// Streams that the inbox projection follows.
pub fn of_inbox(partitions: u32) -> impl Iterator<Item = (Place, StreamName)> {
    (0..partitions).map(StreamName::Inbox).map(|stream| followed(INBOX, stream))
}

/// Streams that webhooks follow.
pub fn of_webhooks(partitions: u32) -> impl Iterator<Item = (Place, StreamName)> {
    let streams = (0..partitions).map(StreamName::Inbox).chain([StreamName::Outcome]);
    streams.map(|stream| followed(WEBHOOKS, stream))
}

/// Streams that the inbox projection or webhooks follow.
pub fn places(partitions: u32) -> impl Iterator<Item = (Place, StreamName)> {
    of_inbox(partitions).chain(of_webhooks(partitions))
}

fn followed(projection: &str, stream: StreamName) -> (Place, StreamName) {
    ((projection.to_owned(), stream.to_string()), stream)
}

/// Reads all checkpoints.
pub async fn current(database: impl PgExecutor<'_>) -> sqlx::Result<Vec<Checkpoint>> {
    let rows: Vec<(String, String, i64)> =
        sqlx::query_as("SELECT projection, stream, seq FROM checkpoint ORDER BY projection, stream")
            .fetch_all(database)
            .await?;
    let checkpoint = |(projection, stream, seq)| Checkpoint { place: (projection, stream), seq };
    Ok(rows.into_iter().map(checkpoint).collect())
}
