//! Providers: whom an app's external deliveries go through.

use chrono::{DateTime, Utc};
use domain::{AppId, Channel, Timestamp};
use serde_json::Value;
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::{Error, Store, audit};

/// A provider as an operator sets it.
#[derive(Clone, Copy)]
pub struct NewProvider<'a> {
    /// Unique in the app.
    pub identifier: &'a str,
    /// The channel that it serves.
    pub channel: Channel,
    /// What it is, such as `smtp`.
    pub kind: &'a str,
    /// The lowest number is tried first.
    pub priority: i32,
    /// Whether it is used.
    pub enabled: bool,
    /// Its settings, without secrets.
    pub settings: &'a Value,
    /// What becomes of its secrets.
    pub secret: SecretChange<'a>,
}

/// What becomes of the secrets of a provider that is set again. They never pass to another channel or kind.
#[derive(Clone, Copy)]
pub enum SecretChange<'a> {
    /// Those that it has stay.
    Keep,
    /// It has none from now on.
    Remove,
    /// These replace them: under the master key, in the context `provider:{app}:{identifier}`.
    Replace(&'a [u8]),
}

/// A provider as operators see it: without its secrets.
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderSummary {
    /// Unique in the app.
    pub identifier: String,
    /// The channel that it serves.
    pub channel: Channel,
    /// What it is, such as `smtp`.
    pub kind: String,
    /// The lowest number is tried first.
    pub priority: i32,
    /// Whether it is used.
    pub enabled: bool,
    /// Its settings, without secrets.
    pub settings: Value,
    /// Whether secrets are kept for it.
    pub has_secret: bool,
    /// Grows with every change, from 1.
    pub version: i64,
    /// When it was changed last.
    pub updated_at: Timestamp,
}

/// A provider as its channel's worker needs it.
#[derive(Clone, PartialEq)]
pub struct ProviderRow {
    /// Unique in the app.
    pub identifier: String,
    /// What it is, such as `smtp`.
    pub kind: String,
    /// The lowest number is tried first.
    pub priority: i32,
    /// Its settings, without secrets.
    pub settings: Value,
    /// Its secrets under the master key, in the context `provider:{app}:{identifier}`.
    pub sealed: Option<Vec<u8>>,
    /// Grows with every change, from 1.
    pub version: i64,
}

impl Store {
    /// Creates or replaces a provider of the app by its identifier, and returns its version, from 1.
    ///
    /// # Errors
    /// The database failed, or refused a value; there is no such app.
    pub async fn put_provider(
        &self,
        app: AppId,
        provider: NewProvider<'_>,
        actor: &str,
    ) -> Result<i64, Error> {
        let (keep, sealed) = match provider.secret {
            SecretChange::Keep => (true, None),
            SecretChange::Remove => (false, None),
            SecretChange::Replace(sealed) => (false, Some(sealed)),
        };
        let mut transaction = self.pool.begin().await?;
        let version = sqlx::query_scalar(
            "INSERT INTO provider (app_id, identifier, channel, kind, priority, enabled, settings, sealed)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
             ON CONFLICT (app_id, identifier) DO UPDATE SET
                 channel = excluded.channel, kind = excluded.kind, priority = excluded.priority,
                 enabled = excluded.enabled, settings = excluded.settings,
                 sealed = CASE WHEN $9 AND (provider.channel, provider.kind) = (excluded.channel, excluded.kind)
                               THEN provider.sealed ELSE excluded.sealed END,
                 version = provider.version + 1, updated_at = now()
             RETURNING version",
        )
        .bind(app.0)
        .bind(provider.identifier)
        .bind(provider.channel.as_str())
        .bind(provider.kind)
        .bind(provider.priority)
        .bind(provider.enabled)
        .bind(provider.settings)
        .bind(sealed)
        .bind(keep)
        .fetch_one(&mut *transaction)
        .await?;
        audit::record(&mut transaction, app, actor, "provider.set", provider.identifier).await?;
        transaction.commit().await?;
        Ok(version)
    }

    /// Every provider of the app, by channel and in the order in which they are tried.
    ///
    /// # Errors
    /// The database failed, or a row is of a newer release.
    pub async fn list_providers(&self, app: AppId) -> Result<Vec<ProviderSummary>, Error> {
        sqlx::query(
            "SELECT identifier, channel, kind, priority, enabled, settings, sealed IS NOT NULL AS has_secret,
                    version, updated_at
             FROM provider WHERE app_id = $1 ORDER BY channel, priority, identifier",
        )
        .bind(app.0)
        .fetch_all(&self.pool)
        .await?
        .iter()
        .map(read_summary)
        .collect()
    }

    /// The channels for which the app has an enabled provider.
    ///
    /// # Errors
    /// The database failed, or a row is of a newer release.
    pub async fn enabled_channels(&self, app: AppId) -> Result<Vec<Channel>, Error> {
        let names: Vec<String> = sqlx::query_scalar(
            "SELECT DISTINCT channel FROM provider WHERE app_id = $1 AND enabled ORDER BY channel",
        )
        .bind(app.0)
        .fetch_all(&self.pool)
        .await?;
        names.iter().map(|name| read_channel(name)).collect()
    }

    /// The app's enabled providers for a channel, in the order in which they are tried.
    ///
    /// # Errors
    /// The database failed.
    pub async fn providers(&self, app: AppId, channel: Channel) -> Result<Vec<ProviderRow>, Error> {
        let rows = sqlx::query(
            "SELECT identifier, kind, priority, settings, sealed, version FROM provider
             WHERE app_id = $1 AND channel = $2 AND enabled ORDER BY priority, identifier",
        )
        .bind(app.0)
        .bind(channel.as_str())
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.iter().map(read_provider).collect::<Result<_, _>>()?)
    }
}

fn read_summary(row: &PgRow) -> Result<ProviderSummary, Error> {
    Ok(ProviderSummary {
        identifier: row.try_get("identifier")?,
        channel: read_channel(row.try_get("channel")?)?,
        kind: row.try_get("kind")?,
        priority: row.try_get("priority")?,
        enabled: row.try_get("enabled")?,
        settings: row.try_get("settings")?,
        has_secret: row.try_get("has_secret")?,
        version: row.try_get("version")?,
        updated_at: row.try_get::<DateTime<Utc>, _>("updated_at")?.into(),
    })
}

fn read_channel(name: &str) -> Result<Channel, Error> {
    name.parse().map_err(|error: domain::problem::UnknownName| Error::Unreadable(error.to_string()))
}

fn read_provider(row: &PgRow) -> Result<ProviderRow, sqlx::Error> {
    Ok(ProviderRow {
        identifier: row.try_get("identifier")?,
        kind: row.try_get("kind")?,
        priority: row.try_get("priority")?,
        settings: row.try_get("settings")?,
        sealed: row.try_get("sealed")?,
        version: row.try_get("version")?,
    })
}
