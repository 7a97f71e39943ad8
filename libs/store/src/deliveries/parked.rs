use domain::{AppId, DeliveryId, Envelope, Event, SendId, StreamName, Timestamp, UserNumber};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::database::columns::columns;
use crate::{Deliveries, Error, sends::send};

/// A send whose event `SendAccepted` was parked before any of its chunks was planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParkedSend {
    pub accepted_at: Timestamp,
    /// None if the send is not scheduled.
    pub send_at: Option<Timestamp>,
    pub recipients: usize,
    pub topics: Vec<String>,
}

impl Deliveries<'_> {
    /// None if the event `SendAccepted` of the send is not parked.
    ///
    /// # Errors
    /// Returns an error if the parked message cannot be decoded.
    pub async fn find_parked_send(self, app: AppId, send_id: SendId) -> Result<Option<ParkedSend>, Error> {
        let message = sqlx::query_scalar!(
            "SELECT message FROM parked WHERE app_id = $1 AND send_id = $2 AND stream = ANY($3)
             ORDER BY parked_at LIMIT 1",
            app.0,
            send_id.0,
            &send::streams()
        )
        .fetch_optional(&self.0.pool)
        .await?;
        let Some(message) = message else { return Ok(None) };
        let envelope = Envelope::decode(&message)?;
        Ok(match envelope.event {
            Event::SendAccepted(send) => Some(ParkedSend {
                accepted_at: envelope.at,
                send_at: send.send_at,
                recipients: send.recipients.len(),
                topics: send.topics,
            }),
            _ => None,
        })
    }
}

pub(crate) struct NewParked<'a> {
    pub(crate) app: AppId,
    pub(crate) send_id: Option<SendId>,
    pub(crate) delivery: DeliveryId,
    pub(crate) user: UserNumber,
    pub(crate) stream: StreamName,
    /// The encoded job for the next attempt, which a redrive publishes.
    pub(crate) message: &'a [u8],
    /// Code of the provider's last answer.
    pub(crate) cause: &'a str,
}

pub(crate) async fn park(connection: &mut PgConnection, parked: &[NewParked<'_>]) -> Result<(), Error> {
    if parked.is_empty() {
        return Ok(());
    }
    columns! { parked in parked =>
        app_id = parked.app.0,
        send_id = parked.send_id.map(|id| id.0),
        delivery_id = parked.delivery.0,
        user_number = parked.user.0,
        stream = parked.stream.to_string(),
        message = parked.message,
        cause = parked.cause,
    }
    sqlx::query!(
        "INSERT INTO parked (id, app_id, send_id, delivery_id, user_number, stream, message, cause)
         SELECT gen_random_uuid(), * FROM unnest($1::bigint[], $2::uuid[], $3::uuid[], $4::bigint[], $5::text[],
           $6::bytea[], $7::text[])",
        &app_id,
        &send_id as &[Option<Uuid>],
        &delivery_id,
        &user_number,
        &stream,
        &message as &[&[u8]],
        &cause as &[&str]
    )
    .execute(connection)
    .await?;
    Ok(())
}
