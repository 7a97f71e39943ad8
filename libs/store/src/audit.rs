//! The audit log of the control plane: who changed what. Rows are written in the transaction of their change.

use domain::AppId;
use sqlx::PgConnection;

use crate::Error;

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
