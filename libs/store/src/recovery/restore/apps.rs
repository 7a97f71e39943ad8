//! Apps that were created after the backup: their rows stand for what can come back of them.

use std::collections::BTreeSet;

use domain::AppId;

use crate::Error;
use crate::recovery::restore::Restore;

impl Restore {
    /// Makes rows for the apps that the database does not know, turned off and without a credential. Returns them.
    ///
    /// # Errors
    /// The database failed; then none is made.
    pub async fn add_apps(&mut self, apps: &BTreeSet<AppId>) -> Result<Vec<AppId>, Error> {
        let made: Vec<i64> = sqlx::query_scalar(
            "INSERT INTO app (id, name, api_key, disabled) OVERRIDING SYSTEM VALUE
             SELECT id, 'lost-' || id || '-' || left(gen_random_uuid()::text, 8), 'lost-' || gen_random_uuid(), true
             FROM unnest($1::bigint[]) AS named (id) ORDER BY id ON CONFLICT DO NOTHING RETURNING id",
        )
        .bind(apps.iter().map(|app| app.0).collect::<Vec<_>>())
        .fetch_all(&mut self.connection)
        .await?;
        Ok(made.into_iter().map(AppId).collect())
    }
}
