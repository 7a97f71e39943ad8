//! Placeholder rows for apps that were created after the backup. Other restored rows refer to these apps.

use std::collections::BTreeSet;

use domain::AppId;

use crate::Error;
use crate::recovery::restore::Restore;

impl Restore {
    /// Creates rows for the apps that the database does not contain, and returns these apps. They are disabled and have no
    /// usable credentials.
    ///
    /// # Errors
    /// Returns an error and creates no row if the database fails.
    pub async fn add_apps(&mut self, apps: &BTreeSet<AppId>) -> Result<Vec<AppId>, Error> {
        let created: Vec<i64> = sqlx::query_scalar(
            "INSERT INTO app (id, name, api_key, disabled) OVERRIDING SYSTEM VALUE
             SELECT id, 'lost-' || id || '-' || left(gen_random_uuid()::text, 8), 'lost-' || gen_random_uuid(), true
             FROM unnest($1::bigint[]) AS named (id) ORDER BY id ON CONFLICT DO NOTHING RETURNING id",
        )
        .bind(apps.iter().map(|app| app.0).collect::<Vec<_>>())
        .fetch_all(&mut self.connection)
        .await?;
        Ok(created.into_iter().map(AppId).collect())
    }
}
