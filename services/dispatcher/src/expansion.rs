use domain::send::{Recipient, TRANSACTIONAL_RECIPIENTS};
use domain::{Expansion, Lane};
use planning::no_further_subscribers;
use store::Store;

use crate::chunk_messages::FrozenChunk;

/// Returns None if the send lists the recipients of that chunk. A cancelled send ends with a chunk without recipients.
pub(crate) async fn next_expansion(
    store: &Store,
    frozen: &FrozenChunk<'_>,
) -> Result<Option<Expansion>, store::Error> {
    if !frozen.expands_next() {
        return Ok(None);
    }
    if frozen.facts.is_cancelled(frozen.chunk()) {
        return Ok(Some(no_further_subscribers(frozen.chunk())));
    }
    planning::next_expansion(store, frozen.chunk()).await.map(Some)
}

impl FrozenChunk<'_> {
    /// Puts many subscribers, and all further ones, in the bulk lane, so that they do not delay other sends.
    pub(crate) fn lane_of_next(&self, expansion: Option<&Expansion>) -> Lane {
        let is_large = |expansion: &Expansion| {
            expansion.recipients.len() > TRANSACTIONAL_RECIPIENTS || !expansion.is_last
        };
        if expansion.is_some_and(is_large) { Lane::Bulk } else { self.chunk().send.lane }
    }

    pub(crate) fn expansion_without_erased(&self) -> Option<Expansion> {
        let mut expansion = self.chunk().expansion.as_deref().cloned()?;
        for (recipient, (_, decision)) in expansion.recipients.iter_mut().zip(&self.planned.decisions) {
            if decision.identifier.is_empty() {
                *recipient = Recipient::erased();
            }
        }
        Some(expansion)
    }

    fn expands_next(&self) -> bool {
        !self.chunk().is_last() && self.chunk().chunk as usize + 1 >= self.chunk().send.chunks()
    }
}
