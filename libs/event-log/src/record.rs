//! A record of a stream.

use bytes::Bytes;

/// A record of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Sequence of the record in the stream.
    pub seq: u64,
    pub payload: Bytes,
    /// Time at which the server stored the record, in Unix milliseconds.
    pub published_at: i64,
}
