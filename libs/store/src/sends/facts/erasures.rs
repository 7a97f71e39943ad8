//! Which recipients were erased after their send was accepted.

use sqlx::PgConnection;

use crate::Error;
use crate::erasure::ErasedRecipients;
use crate::sends::facts::Facts;
use crate::sends::turn::Turn;

impl Facts {
    /// Whether a recipient of the turn was erased after the send was accepted.
    #[must_use]
    pub fn is_erased(&self, turn: &Turn, identifier: &str) -> bool {
        identifier.is_empty() || self.erased.holds(turn.app, identifier, turn.accepted_at)
    }

    /// What is to be kept of the turn's send, where some of its recipients were erased.
    pub(crate) fn without_erased(&self, turn: &Turn) -> Option<Turn> {
        let send = self.erased.without(turn.app, turn.accepted_at, &turn.send)?;
        Some(Turn { send: send.into(), ..turn.clone() })
    }
}

/// Asks for the recipients that the new turns decide on, and for those that come with the body of a send to be kept.
/// The transaction keeps erasures of their apps off.
pub(super) async fn read(
    connection: &mut PgConnection,
    turns: &[Turn],
    new: &[bool],
) -> Result<ErasedRecipients, Error> {
    let new = || turns.iter().zip(new).filter(|(_, new)| **new).map(|(turn, _)| turn);
    let Some(since) = new().map(|turn| turn.accepted_at).min() else {
        return Ok(ErasedRecipients::default());
    };
    let recipients = new().flat_map(|turn| {
        let written = if turn.turn == 0 { &turn.send.recipients[..] } else { turn.send.turn(turn.turn) };
        written.iter().map(|recipient| (turn.app, recipient.identifier.as_str()))
    });
    ErasedRecipients::read(connection, since, &recipients.collect::<Vec<_>>()).await
}
