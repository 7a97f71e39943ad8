//! Sends that were set aside because they fail by themselves.

use domain::{AppId, Envelope, Event, SendId, Timestamp};

use crate::{Error, Store, send};

/// A send that was set aside before any of it was planned or kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParkedSend {
    /// When it was accepted.
    pub accepted_at: Timestamp,
    /// Before which nothing goes out, where it was scheduled.
    pub send_at: Option<Timestamp>,
    /// How many recipients it names.
    pub recipients: usize,
}

impl Store {
    /// The send whose `SendAccepted` was set aside, while nobody has put it back.
    ///
    /// # Errors
    /// The database failed, or the message cannot be read.
    pub async fn find_parked_send(&self, app: AppId, send_id: SendId) -> Result<Option<ParkedSend>, Error> {
        let message: Option<Vec<u8>> = sqlx::query_scalar(
            "SELECT message FROM parked WHERE app_id = $1 AND send_id = $2 AND stream = ANY($3)
             ORDER BY parked_at LIMIT 1",
        )
        .bind(app.0)
        .bind(send_id.0)
        .bind(send::streams())
        .fetch_optional(&self.pool)
        .await?;
        let Some(message) = message else { return Ok(None) };
        let envelope = Envelope::decode(&message).map_err(|error| Error::Unreadable(error.to_string()))?;
        Ok(match envelope.event {
            Event::SendAccepted(send) => Some(ParkedSend {
                accepted_at: envelope.at,
                send_at: send.send_at,
                recipients: send.recipients.len(),
            }),
            _ => None,
        })
    }
}
