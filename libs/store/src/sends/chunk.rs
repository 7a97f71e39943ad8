//! Chunks of sends. A transaction plans one or more whole chunks.

use std::sync::Arc;

use domain::{AppId, SendId, Timestamp};

/// Up to 500 recipients of a send, which are planned together.
#[derive(Clone, Debug)]
pub struct Chunk {
    pub app: AppId,
    pub send_id: SendId,
    /// Number of the chunk, from 0.
    pub chunk: u32,
    /// Time at which the send was accepted.
    pub accepted_at: Timestamp,
    pub send: Arc<domain::SendRequest>,
}
