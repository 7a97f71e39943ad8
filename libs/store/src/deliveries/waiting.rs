//! Deliveries that wait for a timer, of all sends.

use domain::{Action, Actor, AppId, Channel, Lane, Reason, SendId, StreamName, Timestamp};
use uuid::Uuid;

use crate::{Deliveries, Error, database::audit::AuditEntry};

/// Deliveries of an app that wait for the same reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingDeliveries {
    pub app: AppId,
    pub app_name: String,
    pub channel: Channel,
    pub reason: Reason,
    /// Provider that is to be called; None if it is not chosen yet.
    pub provider: Option<String>,
    /// Code of the answer for which they wait.
    pub code: Option<String>,
    pub deliveries: i64,
    /// One of the earliest sends among them.
    pub earliest: Option<SendId>,
    pub next_attempt_at: Timestamp,
}

/// Cause for which deliveries wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingCause {
    pub channel: Channel,
    pub reason: Reason,
    pub provider: Option<String>,
    pub code: Option<String>,
}

impl WaitingDeliveries {
    /// Returns true if the deliveries wait for this cause.
    #[must_use]
    pub fn is_for(&self, cause: &WaitingCause) -> bool {
        (self.channel, self.reason) == (cause.channel, cause.reason)
            && self.provider == cause.provider
            && self.code == cause.code
    }

    /// Returns the acceptance of one of the earliest sends, which its id contains (RFC 9562, section 5.7).
    #[must_use]
    pub fn earliest_accepted_at(&self) -> Option<Timestamp> {
        let (seconds, nanos) = self.earliest?.0.get_timestamp()?.to_unix();
        let millis = i64::try_from(seconds).ok()?.checked_mul(1_000)? + i64::from(nanos / 1_000_000);
        Some(Timestamp::from_millis(millis))
    }
}

impl Deliveries<'_> {
    /// Makes the timers of at most `most` deliveries that wait for a cause due now, and returns their number. A worker then checks the
    /// provider's breaker and rate limit again. Timers that a dispatcher is publishing are left out.
    pub async fn release_waiting(
        self,
        app: AppId,
        cause: &WaitingCause,
        most: i64,
        actor: &Actor,
    ) -> Result<u64, Error> {
        let streams = Lane::ALL.iter().map(|&lane| StreamName::Job(cause.channel, lane).to_string());
        let streams: Vec<String> = streams.collect();
        let mut transaction = self.0.begin().await?;
        let released = sqlx::query!(
            "UPDATE timer SET due_at = now() WHERE id IN (
               SELECT id FROM timer WHERE delivery_id IS NOT NULL AND app_id = $1 AND stream = ANY($2) AND wait_reason = $3
                 AND provider IS NOT DISTINCT FROM $4 AND code IS NOT DISTINCT FROM $5 AND due_at > now()
               ORDER BY due_at LIMIT $6 FOR UPDATE SKIP LOCKED
             )",
            app.0,
            &streams,
            cause.reason.as_str(),
            cause.provider,
            cause.code,
            most
        )
        .execute(&mut *transaction)
        .await?
        .rows_affected();
        if released > 0 {
            let subject = format!("{released} of {} by {}", cause.channel, cause.reason.as_str());
            let entry = AuditEntry::new(app, actor, Action::WaitingRelease, &subject);
            entry.write(&mut transaction).await?;
        }
        transaction.commit().await?;
        Ok(released)
    }

    /// Groups at most `most` waiting deliveries by app, channel and cause; the largest group is the first.
    pub async fn list_waiting(self, app: Option<AppId>, most: i64) -> Result<Vec<WaitingDeliveries>, Error> {
        let rows = sqlx::query!(
            r#"SELECT t.app_id, app.name, t.stream, t.wait_reason AS "reason!", t.provider, t.code, t.deliveries AS "deliveries!",
                 t.earliest, t.next_attempt_at AS "next_attempt_at!"
               FROM (
                 SELECT app_id, regexp_replace(stream, '_[a-z]+$', '_bulk') AS stream, wait_reason, provider, code,
                   count(*) AS deliveries, min(send_id::text COLLATE "C") AS earliest, min(due_at) AS next_attempt_at
                 FROM (SELECT app_id, stream, wait_reason, provider, code, send_id, due_at FROM timer
                       WHERE delivery_id IS NOT NULL AND ($1::bigint IS NULL OR app_id = $1) LIMIT $2) AS waiting
                 GROUP BY 1, 2, 3, 4, 5
               ) AS t JOIN app ON app.id = t.app_id
               ORDER BY t.deliveries DESC, app.name, t.stream"#,
            app.map(|app| app.0),
            most
        )
        .fetch_all(&self.0.pool)
        .await?;
        let mut found = Vec::new();
        for row in rows {
            let Ok(StreamName::Job(channel, _)) = row.stream.unwrap_or_default().parse() else { continue };
            found.push(WaitingDeliveries {
                app: AppId(row.app_id),
                app_name: row.name,
                channel,
                reason: row.reason.parse()?,
                provider: row.provider,
                code: row.code,
                deliveries: row.deliveries,
                earliest: row.earliest.and_then(|id| Uuid::parse_str(&id).ok()).map(SendId),
                next_attempt_at: row.next_attempt_at.into(),
            });
        }
        Ok(found)
    }
}
