//! Recipients that were erased after their send was accepted.

use sqlx::PgConnection;

use crate::Error;
use crate::erasure::ErasedRecipients;
use crate::sends::chunk::Chunk;
use crate::sends::facts::Facts;

impl Facts {
    /// Returns true if a recipient of the chunk was erased after the send was accepted.
    #[must_use]
    pub fn is_erased(&self, chunk: &Chunk, identifier: &str) -> bool {
        identifier.is_empty() || self.erased.holds(chunk.app, identifier, chunk.accepted_at)
    }

    /// Returns the chunk with a send without the erased recipients; None if no recipient was erased.
    pub(crate) fn without_erased(&self, chunk: &Chunk) -> Option<Chunk> {
        let send = self.erased.without(chunk.app, chunk.accepted_at, &chunk.send)?;
        Some(Chunk { send: send.into(), ..chunk.clone() })
    }
}

/// Reads which recipients of the new chunks were erased; for a first chunk, those of the whole send, whose body may be
/// stored. The transaction locks out erasures of their apps.
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
        let recipients =
            if chunk.chunk == 0 { &chunk.send.recipients[..] } else { chunk.send.chunk(chunk.chunk) };
        recipients.iter().map(|recipient| (chunk.app, recipient.identifier.as_str()))
    });
    ErasedRecipients::read(connection, since, &recipients.collect::<Vec<_>>()).await
}
