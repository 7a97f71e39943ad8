use std::collections::BTreeSet;

use domain::AppId;

use crate::Error;
use crate::recovery::restore::Restore;

impl Restore {
    /// Creates rows for missing apps, to which other restored rows refer, and returns these apps. They are disabled and have no usable
    /// credentials.
    pub async fn add_apps(&mut self, apps: &BTreeSet<AppId>) -> Result<Vec<AppId>, Error> {
        let created = sqlx::query_scalar!(
            "INSERT INTO app (id, name, api_key, disabled) OVERRIDING SYSTEM VALUE
             SELECT id, 'lost-' || id || '-' || left(gen_random_uuid()::text, 8), 'lost-' || gen_random_uuid(), true
             FROM unnest($1::bigint[]) AS named (id) ORDER BY id ON CONFLICT DO NOTHING RETURNING id",
            &apps.iter().map(|app| app.0).collect::<Vec<_>>()
        )
        .fetch_all(&mut self.connection)
        .await?;
        Ok(created.into_iter().map(AppId).collect())
    }
}
