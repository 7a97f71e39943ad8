use domain::{Action, Actor, AppId};
use serde_json::Value;
use sqlx::{PgConnection, Postgres, Transaction};

use super::{NewProvider, SecretChange, StoredProvider, StoredRow};
use crate::database::columns::integer;
use crate::{Control, Error, database::audit::AuditEntry};

/// If the provider exists, its row stays locked until [`ProviderEdit::put`] commits or the edit is dropped.
#[derive(Debug)]
pub struct ProviderEdit {
    transaction: Transaction<'static, Postgres>,
    app: AppId,
}

impl Control<'_> {
    /// Returns the new version: 1 if no provider ever had this identifier, otherwise one more than the last version, even if the previous
    /// provider was removed.
    pub async fn put_provider(
        self,
        app: AppId,
        provider: NewProvider<'_>,
        actor: &Actor,
    ) -> Result<i64, Error> {
        let edit = ProviderEdit { transaction: self.0.begin().await?, app };
        edit.put(provider, actor).await
    }

    /// Also returns the stored provider, and locks its row until the edit is completed or dropped.
    pub async fn edit_provider(
        self,
        app: AppId,
        identifier: &str,
    ) -> Result<(ProviderEdit, Option<StoredProvider>), Error> {
        let mut transaction = self.0.begin().await?;
        let row = sqlx::query_as!(
            StoredRow,
            "SELECT app_id, identifier, channel, kind, priority, settings, sealed, version, max_per_second
             FROM provider WHERE app_id = $1 AND identifier = $2 FOR UPDATE",
            app.0,
            identifier
        )
        .fetch_optional(&mut *transaction)
        .await?;
        let stored = row.map(StoredProvider::try_from).transpose()?;
        Ok((ProviderEdit { transaction, app }, stored))
    }

    /// Returns the new version; None if the provider does not exist.
    pub async fn enable_provider(
        self,
        app: AppId,
        identifier: &str,
        enabled: bool,
        actor: &Actor,
    ) -> Result<Option<i64>, Error> {
        let mut transaction = self.0.begin().await?;
        let version = sqlx::query_scalar!(
            "UPDATE provider SET enabled = $3, version = version + 1, updated_at = now()
             WHERE app_id = $1 AND identifier = $2 RETURNING version",
            app.0,
            identifier,
            enabled
        )
        .fetch_optional(&mut *transaction)
        .await?;
        if version.is_some() {
            let action = if enabled { Action::ProviderEnable } else { Action::ProviderDisable };
            AuditEntry::new(app, actor, action, identifier).write(&mut transaction).await?;
            transaction.commit().await?;
        }
        Ok(version)
    }

    /// Removes a provider and its secrets. Its last version number is kept. Returns false if the provider does not exist.
    pub async fn remove_provider(self, app: AppId, identifier: &str, actor: &Actor) -> Result<bool, Error> {
        let mut transaction = self.0.begin().await?;
        let before = described(&mut transaction, app, identifier).await?;
        let removed = sqlx::query!("WITH removed AS (
               DELETE FROM provider WHERE app_id = $1 AND identifier = $2 RETURNING app_id, identifier, version
             )
             INSERT INTO removed_provider (app_id, identifier, version) SELECT * FROM removed
             ON CONFLICT (app_id, identifier) DO UPDATE SET version = excluded.version", app.0, identifier)
        .execute(&mut *transaction)
        .await?;
        if removed.rows_affected() == 0 {
            return Ok(false);
        }
        AuditEntry::new(app, actor, Action::ProviderRemove, identifier)
            .changed(before, None)
            .write(&mut transaction)
            .await?;
        transaction.commit().await?;
        Ok(true)
    }
}

impl ProviderEdit {
    /// Returns the provider's version, like [`Control::put_provider`].
    pub async fn put(mut self, provider: NewProvider<'_>, actor: &Actor) -> Result<i64, Error> {
        let identifier = provider.identifier;
        let before = described(&mut self.transaction, self.app, identifier).await?;
        let version = upsert(&mut self.transaction, self.app, &provider).await?;
        let version = after_removed(&mut self.transaction, self.app, identifier, version).await?;
        let after = described(&mut self.transaction, self.app, identifier).await?;
        AuditEntry::new(self.app, actor, Action::ProviderSet, identifier)
            .changed(before, after)
            .write(&mut self.transaction)
            .await?;
        self.transaction.commit().await?;
        Ok(version)
    }
}

/// Leaves out the settings, because they may contain addresses and names of people.
async fn described(
    connection: &mut PgConnection,
    app: AppId,
    identifier: &str,
) -> Result<Option<Value>, Error> {
    let described = sqlx::query_scalar!(
        r#"SELECT jsonb_build_object('channel', channel, 'kind', kind, 'priority', priority, 'enabled', enabled,
             'maxPerSecond', max_per_second, 'version', version) AS "described!"
           FROM provider WHERE app_id = $1 AND identifier = $2"#,
        app.0,
        identifier
    );
    Ok(described.fetch_optional(connection).await?)
}

async fn upsert(connection: &mut PgConnection, app: AppId, provider: &NewProvider<'_>) -> Result<i64, Error> {
    let (keep, sealed) = match provider.secret {
        SecretChange::Keep => (true, None),
        SecretChange::Remove => (false, None),
        SecretChange::Replace(sealed) => (false, Some(sealed)),
    };
    let version = sqlx::query_scalar!(
        "INSERT INTO provider (app_id, identifier, channel, kind, priority, enabled, settings, sealed,
           max_per_second)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $10)
         ON CONFLICT (app_id, identifier) DO UPDATE SET
             channel = excluded.channel, kind = excluded.kind, priority = excluded.priority,
             enabled = excluded.enabled, settings = excluded.settings,
             max_per_second = excluded.max_per_second,
             sealed = CASE WHEN $9 AND (provider.channel, provider.kind) = (excluded.channel, excluded.kind)
                           THEN provider.sealed ELSE excluded.sealed END,
             version = provider.version + 1, updated_at = now()
         RETURNING version",
        app.0,
        provider.identifier,
        provider.channel.as_str(),
        provider.kind,
        provider.priority,
        provider.enabled,
        provider.settings,
        sealed,
        keep,
        provider.max_per_second.map(integer)
    )
    .fetch_one(connection)
    .await?;
    Ok(version)
}

/// Raises the version above that of a removed provider with this identifier. A separate statement, because the upsert may have waited for a
/// concurrent removal, and only a later statement sees the version that the removal wrote.
async fn after_removed(
    connection: &mut PgConnection,
    app: AppId,
    identifier: &str,
    version: i64,
) -> Result<i64, Error> {
    let raised: Option<i64> = sqlx::query_scalar!(
        "UPDATE provider p SET version = removed.version + 1 FROM removed_provider removed
         WHERE p.app_id = $1 AND p.identifier = $2 AND removed.version >= p.version
           AND (removed.app_id, removed.identifier) = (p.app_id, p.identifier)
         RETURNING p.version",
        app.0,
        identifier
    )
    .fetch_optional(connection)
    .await?;
    Ok(raised.unwrap_or(version))
}
