//! The audit log: who changed what, and who erased or cancelled what. Rows are written in the transaction of their change
//! and never changed; a trigger and the grants of the service role see to it.

use chrono::{DateTime, Utc};
use domain::{AppId, Timestamp};
use sqlx::{PgConnection, Row};

use crate::database::instant::instant;
use crate::{Error, Store};

/// One row of the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRow {
    /// When it happened.
    pub at: Timestamp,
    /// `cli:` and the operator's account, or `api:` and the address of the caller who had the API secret.
    pub actor: String,
    /// Such as `app.set`, `user.erase`, `request.cancel`.
    pub action: String,
    /// The object of the action by name or number, without personal data.
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

impl Store {
    /// Lists at most `limit` rows of an app, the latest first, of `since` and later if it is given.
    ///
    /// # Errors
    /// The database failed.
    pub async fn list_audit(
        &self,
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
        .fetch_all(&self.pool)
        .await?;
        rows.iter()
            .map(|row| {
                let at: DateTime<Utc> = row.try_get("at")?;
                let (actor, action) = (row.try_get("actor")?, row.try_get("action")?);
                Ok(AuditRow { at: at.into(), actor, action, subject: row.try_get("subject")? })
            })
            .collect()
    }
}
