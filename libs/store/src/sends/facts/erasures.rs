use sqlx::PgConnection;

use crate::Error;
use crate::erasure::ErasedRecipients;
use crate::sends::chunk::Chunk;
use crate::sends::facts::Facts;
use crate::sends::planned_chunk::PlannedChunk;

impl Facts {
    #[must_use]
    pub fn is_erased(&self, chunk: &Chunk, identifier: &str) -> bool {
        identifier.is_empty() || self.erased.holds(chunk.app, identifier, chunk.accepted_at)
    }

    /// None if no recipient was erased.
    pub(crate) fn without_erased(&self, chunk: &Chunk) -> Option<Chunk> {
        let send = self.erased.without(chunk.app, chunk.accepted_at, &chunk.send)?;
        Some(Chunk { send: send.into(), ..chunk.clone() })
    }
}

/// For the first chunk of a send, checks all users that the send mentions, because the body may be stored. The transaction must already
/// block erasures in the apps of the chunks.
pub(super) async fn read(
    connection: &mut PgConnection,
    chunks: &[PlannedChunk],
    facts: &Facts,
) -> Result<ErasedRecipients, Error> {
    let mut named = Vec::new();
    let may_name_erased = |planned: &&PlannedChunk| {
        planned.is_new && facts.apps.get(&planned.chunk.app).is_none_or(|app| app.has_erased)
    };
    for PlannedChunk { chunk, .. } in chunks.iter().filter(may_name_erased) {
        if chunk.chunk == 0 {
            named.extend(chunk.send.identifiers().map(|identifier| (chunk.app, identifier)));
        } else {
            let recipients = chunk.recipients().iter();
            named.extend(recipients.map(|recipient| (chunk.app, recipient.identifier.as_str())));
        }
    }
    ErasedRecipients::of(connection, &named).await
}
