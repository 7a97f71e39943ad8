//! Parked messages: jobs after their last retry, and messages whose processing fails every time.

use domain::{AppId, DeliveryId, Envelope, Event, SendId, StreamName, Timestamp, UserNumber};
use sqlx::PgConnection;

use crate::{Deliveries, Error, sends::send};

/// A send whose accepted event was parked before any of its chunks was planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParkedSend {
    pub accepted_at: Timestamp,
    /// Earliest time of delivery, if the send is scheduled.
    pub send_at: Option<Timestamp>,
    /// Number of recipients.
    pub recipients: usize,
}

impl Deliveries<'_> {
    /// Returns the send with this id if its event `SendAccepted` is parked; None otherwise.
    ///
    /// # Errors
    /// The database failed, or the message cannot be decoded.
    pub async fn find_parked_send(self, app: AppId, send_id: SendId) -> Result<Option<ParkedSend>, Error> {
        let message: Option<Vec<u8>> = sqlx::query_scalar(
            "SELECT message FROM parked WHERE app_id = $1 AND send_id = $2 AND stream = ANY($3)
             ORDER BY parked_at LIMIT 1",
        )
        .bind(app.0)
        .bind(send_id.0)
        .bind(send::streams())
        .fetch_optional(&self.0.pool)
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

/// A job to park after its last retry.
pub(crate) struct NewParked<'a> {
    pub(crate) app: AppId,
    pub(crate) send_id: Option<SendId>,
    pub(crate) delivery: DeliveryId,
    pub(crate) user: UserNumber,
    pub(crate) stream: StreamName,
    /// The encoded job of the next attempt.
    pub(crate) message: &'a [u8],
    /// The code in the provider's last answer.
    pub(crate) cause: &'a str,
}

pub(crate) async fn park(connection: &mut PgConnection, parked: &[NewParked<'_>]) -> Result<(), Error> {
    if parked.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "INSERT INTO parked (id, app_id, send_id, delivery_id, user_number, stream, message, cause)
         SELECT gen_random_uuid(), * FROM unnest($1::bigint[], $2::uuid[], $3::uuid[], $4::bigint[], $5::text[],
           $6::bytea[], $7::text[])",
    )
    .bind(parked.iter().map(|parked| parked.app.0).collect::<Vec<_>>())
    .bind(parked.iter().map(|parked| parked.send_id.map(|id| id.0)).collect::<Vec<_>>())
    .bind(parked.iter().map(|parked| parked.delivery.0).collect::<Vec<_>>())
    .bind(parked.iter().map(|parked| parked.user.0).collect::<Vec<_>>())
    .bind(parked.iter().map(|parked| parked.stream.to_string()).collect::<Vec<_>>())
    .bind(parked.iter().map(|parked| parked.message).collect::<Vec<_>>())
    .bind(parked.iter().map(|parked| parked.cause).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}
