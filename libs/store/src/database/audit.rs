//! The audit log: which actor changed, erased or cancelled which object. A row is written in the same transaction as the
//! change that it records. Rows are immutable: a trigger and the grants of the service role enforce this.

use chrono::{DateTime, Utc};
use domain::{AppId, Timestamp};
use sqlx::{PgConnection, Row};

use crate::database::instant::instant;
use crate::{Database, Error};

/// One row of the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRow {
    pub at: Timestamp,
    /// `cli:` followed by the operator's account, or `api:` followed by the IP address of the caller that used the API
    /// secret.
    pub actor: String,
    /// Name of the action, such as `app.set`, `user.erase` or `request.cancel`.
    pub action: String,
    /// Name or number of the object of the action, without personal data.
    pub subject: String,
}

pub(crate) async fn record(
    connection: &mut PgConnection,
    app: AppId,
    actor: &str,
    action: &str,
    subject: &str,
) -> Result<(), Error> {
    sqlx::query("INSERT INTO audit (app_id, actor, action, subject) VALUES ($1, $2, $3, $4)")
        .bind(app.0)
        .bind(actor)
        .bind(action)
        .bind(subject)
        .execute(connection)
        .await?;
    Ok(())
}

impl Database<'_> {
    /// Lists at most `limit` rows of an app, latest first. With `since`, only rows from that time on.
    pub async fn list_audit(
        self,
        app: AppId,
        since: Option<Timestamp>,
        limit: i64,
    ) -> Result<Vec<AuditRow>, Error> {
        let rows = sqlx::query(
            "SELECT at, actor, action, subject FROM audit
             WHERE app_id = $1 AND ($2::timestamptz IS NULL OR at >= $2) ORDER BY id DESC LIMIT $3",
        )
        .bind(app.0)
        .bind(since.map(instant))
        .bind(limit)
        .fetch_all(&self.0.pool)
        .await?;
        rows.iter()
            .map(|row| {
                let at: DateTime<Utc> = row.try_get("at")?;
                Ok(AuditRow {
                    at: at.into(),
                    actor: row.try_get("actor")?,
                    action: row.try_get("action")?,
                    subject: row.try_get("subject")?,
                })
            })
            .collect()
    }
}
