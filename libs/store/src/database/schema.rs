use crate::database::connection::MIGRATIONS;
use crate::{Error, Store};

#[must_use]
pub fn known_schema_version() -> i64 {
    MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or_default()
}

impl Store {
    /// None if the database has no schema.
    pub async fn schema_version(&self) -> Result<Option<i64>, Error> {
        let migrated =
            sqlx::query_scalar!(r#"SELECT to_regclass('_sqlx_migrations') IS NOT NULL AS "migrated!""#)
                .fetch_one(&self.pool)
                .await?;
        if !migrated {
            return Ok(None);
        }
        Ok(sqlx::query_scalar!("SELECT max(version) FROM _sqlx_migrations WHERE success")
            .fetch_one(&self.pool)
            .await?)
    }
}
