use bytes::Bytes;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub seq: u64,
    pub payload: Bytes,
    /// Unix milliseconds, by the server's clock.
    pub published_at: i64,
}
