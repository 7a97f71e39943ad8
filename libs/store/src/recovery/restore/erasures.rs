use domain::event::UserErased;
use domain::{AppId, Timestamp};
use sqlx::Connection as _;

use crate::Error;
use crate::database::instant::instant;
use crate::recovery::restore::Restore;

impl Restore {
    /// Erases a user again. The passes that follow every erasure remove the user's remaining data. Returns false if the database already
    /// contains the erasure.
    ///
    /// If the backup does not contain the user, stores the digest from the event. Sends that were accepted before the erasure then do not
    /// create the user again.
    pub async fn add_erasure(
        &mut self,
        app: AppId,
        erased: &UserErased,
        at: Timestamp,
    ) -> Result<bool, Error> {
        let user = erased.user;
        let identifier = sqlx::query_scalar!(
            "SELECT identifier FROM app_user WHERE app_id = $1 AND number = $2",
            app.0,
            user.0
        )
        .fetch_optional(&mut self.connection)
        .await?;
        if let Some(identifier) = &identifier {
            self.store.erasure().blank_while_unknown(app, identifier).await?;
        }
        let mut transaction = self.connection.begin().await?;
        let written = sqlx::query!(
            r"WITH gone AS (
               DELETE FROM app_user WHERE app_id = $1 AND number = $2 RETURNING app_id, identifier
             )
             INSERT INTO erased (app_id, user_number, digest, erased_at)
             SELECT $1, $2, coalesce(
               (SELECT sha256(convert_to(app_id || E'\n' || identifier, 'UTF8')) FROM gone), $4
             ), $3 ON CONFLICT DO NOTHING",
            app.0,
            user.0,
            instant(at),
            erased.digest.as_ref().map(|digest| digest.0.as_slice())
        )
        .execute(&mut *transaction)
        .await?;
        transaction.commit().await?;
        Ok(written.rows_affected() > 0)
    }
}
