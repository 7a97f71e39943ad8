//! Which recipients were erased after their send was accepted.

use sqlx::PgConnection;

use crate::Error;
use crate::erasure::ErasedRecipients;
use crate::sends::chunk::Chunk;
use crate::sends::facts::Facts;

impl Facts {
    /// Whether a recipient of the chunk was erased after the send was accepted.
    #[must_use]
    pub fn is_erased(&self, chunk: &Chunk, identifier: &str) -> bool {
        identifier.is_empty() || self.erased.holds(chunk.app, identifier, chunk.accepted_at)
    }

    /// What is to be kept of the chunk's send, where some of its recipients were erased.
    pub(crate) fn without_erased(&self, chunk: &Chunk) -> Option<Chunk> {
        let send = self.erased.without(chunk.app, chunk.accepted_at, &chunk.send)?;
        Some(Chunk { send: send.into(), ..chunk.clone() })
    }
}

/// Asks for the recipients that the new chunks decide on, and for those that come with the body of a send to be kept.
/// The transaction keeps erasures of their apps off.
pub(super) async fn read(
    connection: &mut PgConnection,
    chunks: &[Chunk],
    new: &[bool],
) -> Result<ErasedRecipients, Error> {
    let new = || chunks.iter().zip(new).filter(|(_, new)| **new).map(|(chunk, _)| chunk);
    let Some(since) = new().map(|chunk| chunk.accepted_at).min() else {
        return Ok(ErasedRecipients::default());
    };
    let recipients = new().flat_map(|chunk| {
        let written =
            if chunk.chunk == 0 { &chunk.send.recipients[..] } else { chunk.send.chunk(chunk.chunk) };
        written.iter().map(|recipient| (chunk.app, recipient.identifier.as_str()))
    });
    ErasedRecipients::read(connection, since, &recipients.collect::<Vec<_>>()).await
}
