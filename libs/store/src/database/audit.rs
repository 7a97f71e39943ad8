//! The audit log records which actor changed, erased or cancelled which object. A row is written in the same transaction as
//! the change that it records. Rows are immutable: a trigger and the grants of the service role enforce this.

use domain::{AppId, Timestamp};
use sqlx::PgConnection;

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
    /// Name or number of the object that the action affected, without personal data.
    pub subject: String,
}

pub(crate) async fn record(
    connection: &mut PgConnection,
    app: AppId,
    actor: &str,
    action: &str,
    subject: &str,
) -> Result<(), Error> {
    sqlx::query!(
        "INSERT INTO audit (app_id, actor, action, subject) VALUES ($1, $2, $3, $4)",
        app.0,
        actor,
        action,
        subject
    )
    .execute(connection)
    .await?;
    Ok(())
}

impl Database<'_> {
    /// Lists at most `limit` rows of an app, latest first. If `since` is given, lists only rows from that time on.
    pub async fn list_audit(
        self,
        app: AppId,
        since: Option<Timestamp>,
        limit: i64,
    ) -> Result<Vec<AuditRow>, Error> {
        let rows = sqlx::query_as!(
            AuditRow,
            "SELECT at, actor, action, subject FROM audit
             WHERE app_id = $1 AND ($2::timestamptz IS NULL OR at >= $2) ORDER BY id DESC LIMIT $3",
            app.0,
            since.map(instant),
            limit
        );
        Ok(rows.fetch_all(&self.0.pool).await?)
    }
}
