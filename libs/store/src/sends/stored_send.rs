use domain::send::{CHUNK_RECIPIENTS, Recipient};
use domain::structure::json_memory;
use domain::{AppId, Expansion, SendId, Timestamp};
use sqlx::PgConnection;
use sqlx::types::Json;

use crate::database::columns::integer;
use crate::sends::chunk::Chunk;
use crate::{Error, Sends};

#[derive(Clone, Debug)]
pub struct StoredSend {
    pub accepted_at: Timestamp,
    /// None after the last chunk was processed.
    pub send: Option<domain::SendRequest>,
    /// Approximate size of the body in memory, in bytes.
    pub size: usize,
    /// Expansion of the requested chunk, if the chunk is frozen and its recipients are subscribers.
    pub frozen: Option<Expansion>,
}

impl Sends<'_> {
    /// None if the request does not exist.
    pub async fn find_stored_send(
        self,
        app: AppId,
        send_id: SendId,
        chunk: u32,
    ) -> Result<Option<StoredSend>, Error> {
        let row = sqlx::query!(
            r#"SELECT r.accepted_at, r.body::text AS body, p.expansion AS "expansion?: Json<Expansion>",
               CASE WHEN p.expansion IS NOT NULL THEN ARRAY(
                 SELECT identifier FROM planned_recipient
                 WHERE app_id = $1 AND send_id = $2 AND recipient_index >= $3 * $4 AND recipient_index < ($3 + 1) * $4
                 ORDER BY recipient_index
               ) END AS recipients
               FROM request r LEFT JOIN plan p ON p.app_id = $1 AND p.send_id = $2 AND p.turn = $3
               WHERE r.app_id = $1 AND r.send_id = $2"#,
            app.0,
            send_id.0,
            integer(chunk),
            integer(CHUNK_RECIPIENTS)
        )
        .fetch_optional(&self.0.pool)
        .await?;
        row.map(|row| {
            let send = row.body.as_deref().map(serde_json::from_str).transpose();
            let send = send.map_err(|error| Error::Unreadable(error.to_string()))?;
            let size = row.body.map_or(0, |body| json_memory(body.as_bytes()));
            let recipients = row.recipients.unwrap_or_default().into_iter().map(Recipient::plain).collect();
            let frozen = row.expansion.map(|Json(expansion)| Expansion { recipients, ..expansion });
            Ok(StoredSend { accepted_at: row.accepted_at.into(), send, size, frozen })
        })
        .transpose()
    }

    /// Keeps the body of a send with topics if an earlier chunk is not frozen: in a restored database, that chunk may still have to be
    /// planned.
    pub async fn drop_body(self, app: AppId, send_id: SendId, last_chunk: u32) -> Result<(), Error> {
        sqlx::query!(
            "UPDATE request SET body = NULL WHERE app_id = $1 AND send_id = $2 AND body IS NOT NULL
               AND (topics IS NULL OR (SELECT count(*) FROM plan WHERE app_id = $1 AND send_id = $2) > $3)",
            app.0,
            send_id.0,
            i64::from(last_chunk)
        )
        .execute(&self.0.pool)
        .await?;
        Ok(())
    }
}

pub(crate) async fn is_first_chunk_frozen(
    connection: &mut PgConnection,
    chunk: &Chunk,
) -> Result<bool, Error> {
    let is_frozen = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM plan WHERE app_id = $1 AND send_id = $2 AND turn = 0) AS "is_frozen!""#,
        chunk.app.0,
        chunk.send_id.0
    )
    .fetch_one(connection)
    .await?;
    Ok(is_frozen)
}
