use std::sync::Arc;

use domain::send::Recipient;
use domain::{AppId, Expansion, SendId, Timestamp};
use uuid::Uuid;

/// Up to 500 recipients of a send, which are planned together.
#[derive(Clone, Debug)]
pub struct Chunk {
    pub app: AppId,
    pub send_id: SendId,
    /// Starts at 0.
    pub chunk: u32,
    pub accepted_at: Timestamp,
    pub send: Arc<domain::SendRequest>,
    /// The recipients, if they are subscribers; None if the send lists them.
    pub expansion: Option<Arc<Expansion>>,
    /// The message that asks for the chunk; None in a dry run and in a restore.
    pub cause: Option<Cause>,
}

#[derive(Clone, Debug)]
pub struct Cause {
    pub id: Uuid,
    pub trace: Option<String>,
}

impl Chunk {
    /// Creates a chunk of recipients that the send lists.
    #[must_use]
    pub fn listed(
        app: AppId,
        send_id: SendId,
        chunk: u32,
        accepted_at: Timestamp,
        send: Arc<domain::SendRequest>,
    ) -> Chunk {
        Chunk { app, send_id, chunk, accepted_at, send, expansion: None, cause: None }
    }

    #[must_use]
    pub fn recipients(&self) -> &[Recipient] {
        match &self.expansion {
            Some(expansion) => &expansion.recipients,
            None => self.send.chunk(self.chunk),
        }
    }

    #[must_use]
    pub fn is_last(&self) -> bool {
        match &self.expansion {
            Some(expansion) => expansion.is_last,
            None => !self.send.has_topics() && self.chunk as usize + 1 >= self.send.chunks(),
        }
    }
}
