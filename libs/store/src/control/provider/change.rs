use domain::{Action, Actor, AppId};
use serde_json::{Value, json};
use sqlx::{PgConnection, Postgres, Transaction};

use super::{NewProvider, SecretChange, StoredProvider, StoredRow};
use crate::database::columns::integer;
use crate::{Control, Error, database::audit::AuditEntry};

/// Difference between two priorities if all providers of a channel get new ones.
const STEP: i32 = 10;
/// Member of a row of the audit log.
const HOST: &str = "host";

/// If the provider exists, its row stays locked until [`ProviderEdit::put`] commits or the edit is dropped.
#[derive(Debug)]
pub struct ProviderEdit {
    transaction: Transaction<'static, Postgres>,
    app: AppId,
}

/// Names of the secrets that a provider has after a change.
#[derive(Clone, Copy, Debug, Default)]
pub struct SecretNames<'a> {
    /// Secrets that the change sets.
    pub given: &'a [&'a str],
    /// Secrets that stay as they are.
    pub kept: &'a [&'a str],
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
        edit.put(provider, SecretNames::default(), actor).await
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
        let (edit, stored) = self.edit_provider(app, identifier).await?;
        match stored {
            Some(_) => edit.enable(identifier, enabled, None, actor).await.map(Some),
            None => Ok(None),
        }
    }

    /// Removes a provider and its secrets. Its last version number is kept. Returns false if the provider does not exist.
    pub async fn remove_provider(self, app: AppId, identifier: &str, actor: &Actor) -> Result<bool, Error> {
        let edit = ProviderEdit { transaction: self.0.begin().await?, app };
        edit.remove(identifier, actor).await
    }

    /// Moves a provider to the place of the provider that is tried directly before it. Returns false, and changes nothing, if that is
    /// another one than `before`.
    pub async fn move_provider(
        self,
        app: AppId,
        identifier: &str,
        before: &str,
        actor: &Actor,
    ) -> Result<bool, Error> {
        let mut transaction = self.0.begin().await?;
        let rows = sqlx::query!(
            "SELECT identifier, priority FROM provider
             WHERE app_id = $1 AND channel = (SELECT channel FROM provider WHERE app_id = $1 AND identifier = $2)
             ORDER BY priority, identifier FOR UPDATE",
            app.0,
            identifier
        )
        .fetch_all(&mut *transaction)
        .await?;
        let old: Vec<(String, i32)> = rows.into_iter().map(|row| (row.identifier, row.priority)).collect();
        let is_pair = |pair: &[(String, i32)]| matches!(pair, [(one, _), (two, _)] if one == before && two == identifier);
        let Some(place) = old.windows(2).position(is_pair) else { return Ok(false) };
        let changed = reordered(&old, place);
        let (names, priorities): (Vec<String>, Vec<i32>) = changed.iter().cloned().unzip();
        sqlx::query!(
            "UPDATE provider SET priority = wanted.priority, version = version + 1, updated_at = now()
             FROM unnest($2::text[], $3::int[]) AS wanted (identifier, priority)
             WHERE app_id = $1 AND provider.identifier = wanted.identifier",
            app.0,
            &names,
            &priorities
        )
        .execute(&mut *transaction)
        .await?;
        for (name, priority) in &changed {
            let before = old.iter().find(|(known, _)| known == name).map(|(_, priority)| *priority);
            AuditEntry::new(app, actor, Action::ProviderSet, name)
                .changed(Some(json!({"priority": before})), Some(json!({"priority": priority})))
                .write(&mut transaction)
                .await?;
        }
        transaction.commit().await?;
        Ok(true)
    }
}

/// Exchanges the providers at `place` and behind it, and returns those whose priority changes. Usually two priorities are exchanged. If
/// providers share one, all get new priorities.
fn reordered(old: &[(String, i32)], place: usize) -> Vec<(String, i32)> {
    let mut names: Vec<&str> = old.iter().map(|(name, _)| name.as_str()).collect();
    names.swap(place, place + 1);
    let exchanged = names.iter().zip(old).map(|(name, (_, priority))| ((*name).to_owned(), *priority));
    let mut wanted: Vec<(String, i32)> = exchanged.collect();
    let is_ordered = wanted.is_sorted_by_key(|(name, priority)| (*priority, name.clone()));
    if !is_ordered {
        let places = names.iter().zip(1..);
        wanted = places.map(|(name, place)| ((*name).to_owned(), place * STEP)).collect();
    }
    wanted.retain(|new| !old.contains(new));
    wanted
}

impl ProviderEdit {
    /// Enables or disables the provider, which must exist. Returns its new version. The audit log keeps the reason.
    pub async fn enable(
        mut self,
        identifier: &str,
        enabled: bool,
        reason: Option<&str>,
        actor: &Actor,
    ) -> Result<i64, Error> {
        let version = sqlx::query_scalar!(
            "UPDATE provider SET enabled = $3, version = version + 1, updated_at = now()
             WHERE app_id = $1 AND identifier = $2 RETURNING version",
            self.app.0,
            identifier,
            enabled
        )
        .fetch_one(&mut *self.transaction)
        .await?;
        let action = if enabled { Action::ProviderEnable } else { Action::ProviderDisable };
        AuditEntry::new(self.app, actor, action, identifier)
            .changed(None, reason.map(|reason| json!({"reason": reason})))
            .write(&mut self.transaction)
            .await?;
        self.transaction.commit().await?;
        Ok(version)
    }

    /// Removes the provider, like [`Control::remove_provider`].
    pub async fn remove(mut self, identifier: &str, actor: &Actor) -> Result<bool, Error> {
        let mut before = described(&mut self.transaction, self.app, identifier).await?;
        leave_out_host(&mut before, &mut None);
        let removed = sqlx::query!("WITH removed AS (
               DELETE FROM provider WHERE app_id = $1 AND identifier = $2 RETURNING app_id, identifier, version
             )
             INSERT INTO removed_provider (app_id, identifier, version) SELECT * FROM removed
             ON CONFLICT (app_id, identifier) DO UPDATE SET version = excluded.version", self.app.0, identifier)
        .execute(&mut *self.transaction)
        .await?;
        if removed.rows_affected() == 0 {
            return Ok(false);
        }
        AuditEntry::new(self.app, actor, Action::ProviderRemove, identifier)
            .changed(before, None)
            .write(&mut self.transaction)
            .await?;
        self.transaction.commit().await?;
        Ok(true)
    }

    /// Returns the provider's version, like [`Control::put_provider`].
    pub async fn put(
        mut self,
        provider: NewProvider<'_>,
        secrets: SecretNames<'_>,
        actor: &Actor,
    ) -> Result<i64, Error> {
        let identifier = provider.identifier;
        let mut before = described(&mut self.transaction, self.app, identifier).await?;
        let version = upsert(&mut self.transaction, self.app, &provider).await?;
        let version = after_removed(&mut self.transaction, self.app, identifier, version).await?;
        note_secrets(&mut self.transaction, self.app, identifier, secrets).await?;
        let mut after = described(&mut self.transaction, self.app, identifier).await?;
        leave_out_host(&mut before, &mut after);
        AuditEntry::new(self.app, actor, Action::ProviderSet, identifier)
            .changed(before, after)
            .write(&mut self.transaction)
            .await?;
        self.transaction.commit().await?;
        Ok(version)
    }
}

/// Removes the host unless the change replaces it.
fn leave_out_host(before: &mut Option<Value>, after: &mut Option<Value>) {
    let host = |described: &Option<Value>| described.as_ref().map(|described| described[HOST].clone());
    if before.is_some() && after.is_some() && host(before) != host(after) {
        return;
    }
    for described in [before, after] {
        if let Some(Value::Object(members)) = described {
            members.remove(HOST);
        }
    }
}

/// Leaves out the settings except the host to which secrets go, because they may contain addresses and names of people.
async fn described(
    connection: &mut PgConnection,
    app: AppId,
    identifier: &str,
) -> Result<Option<Value>, Error> {
    let described = sqlx::query_scalar!(
        r#"SELECT jsonb_build_object('channel', channel, 'kind', kind, 'priority', priority, 'enabled', enabled,
             'maxPerSecond', max_per_second, 'version', version, 'host', coalesce(settings ->> 'host',
               substring(coalesce(settings ->> 'url', settings ->> 'baseUrl')
                 FROM '^[a-z]+://(?:[^/@]*@)?(\[[^]]*\]|[^/:?#]+)'))) AS "described!"
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

async fn note_secrets(
    connection: &mut PgConnection,
    app: AppId,
    identifier: &str,
    secrets: SecretNames<'_>,
) -> Result<(), Error> {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    sqlx::query!(
        "UPDATE provider p SET set_times = (
           SELECT jsonb_object_agg(name, CASE WHEN name = ANY($4) THEN coalesce(p.set_times -> name, 'null')
             ELSE to_jsonb((extract(epoch FROM now()) * 1000)::bigint) END)
           FROM unnest($3::text[] || $4::text[]) AS name)
         WHERE app_id = $1 AND identifier = $2",
        app.0,
        identifier,
        &owned(secrets.given),
        &owned(secrets.kept)
    )
    .execute(connection)
    .await?;
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn after(old: &[(&str, i32)], place: usize) -> Vec<(String, i32)> {
        let old: Vec<_> = old.iter().map(|(name, priority)| ((*name).to_owned(), *priority)).collect();
        let changed = reordered(&old, place);
        let mut now: Vec<_> = old
            .iter()
            .map(|known| changed.iter().find(|(name, _)| *name == known.0).unwrap_or(known).clone())
            .collect();
        now.sort_by_key(|(name, priority)| (*priority, name.clone()));
        now
    }

    #[test]
    fn two_providers_exchange_their_places_and_the_others_keep_theirs() {
        for old in [
            &[("a", 1), ("b", 5), ("c", 9)][..],
            &[("a", 1), ("b", 1), ("c", 1)],
            &[("a", 1), ("b", 2), ("c", 2)],
            &[("x", 1), ("b", 2), ("c", 2)],
            &[("a", -5), ("d", 2), ("b", 7)],
        ] {
            for place in [0, 1] {
                let mut wanted: Vec<&str> = old.iter().map(|(name, _)| *name).collect();
                wanted.swap(place, place + 1);
                let now: Vec<_> = after(old, place).into_iter().map(|(name, _)| name).collect();
                assert_eq!(now, wanted, "{old:?} {place}");
            }
        }
        assert_eq!(after(&[("a", 1), ("b", 5)], 0), [("b".to_owned(), 1), ("a".to_owned(), 5)]);
    }
}
