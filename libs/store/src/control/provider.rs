//! Providers: the services that transmit an app's external deliveries.

mod change;

use chrono::{DateTime, Utc};
use domain::{AppId, Channel, Timestamp};
use serde_json::Value;
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::{Control, Error};

pub use change::ProviderEdit;

/// Settings of a provider to create or replace.
#[derive(Clone, Copy)]
pub struct NewProvider<'a> {
    /// Unique in the app.
    pub identifier: &'a str,
    pub channel: Channel,
    /// Type of the provider, such as `smtp`.
    pub kind: &'a str,
    /// Providers with lower numbers are tried first.
    pub priority: i32,
    pub enabled: bool,
    /// Settings without secrets.
    pub settings: &'a Value,
    pub secret: SecretChange<'a>,
    /// Maximum number of calls per second by one worker, at least 1; None for no limit.
    pub max_per_second: Option<u32>,
}

/// Change to the secrets when a provider is replaced. If the provider's channel or kind changes, its old secrets are
/// removed in any case.
#[derive(Clone, Copy)]
pub enum SecretChange<'a> {
    /// Keeps the stored secrets.
    Keep,
    /// Removes the stored secrets.
    Remove,
    /// Replaces the stored secrets with these, sealed under the master key in the context `provider:{app}:{identifier}`.
    Replace(&'a [u8]),
}

/// A provider without its secrets, for operators.
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderSummary {
    /// Unique in the app.
    pub identifier: String,
    pub channel: Channel,
    /// Type of the provider, such as `smtp`.
    pub kind: String,
    /// Providers with lower numbers are tried first.
    pub priority: i32,
    pub enabled: bool,
    /// Settings without secrets.
    pub settings: Value,
    /// True if secrets are stored.
    pub has_secret: bool,
    /// Starts at 1 and grows with every change.
    pub version: i64,
    pub updated_at: Timestamp,
    /// Maximum number of calls per second by one worker; None for no limit.
    pub max_per_second: Option<u32>,
}

/// A provider with its sealed secrets, for the workers of its channel.
#[derive(Clone, PartialEq)]
pub struct ProviderRow {
    /// Unique in the app.
    pub identifier: String,
    /// Type of the provider, such as `smtp`.
    pub kind: String,
    /// Providers with lower numbers are tried first.
    pub priority: i32,
    /// Settings without secrets.
    pub settings: Value,
    /// Secrets, sealed under the master key in the context `provider:{app}:{identifier}`.
    pub sealed: Option<Vec<u8>>,
    /// Starts at 1 and grows with every change.
    pub version: i64,
    /// Maximum number of calls per second by one worker; None for no limit.
    pub max_per_second: Option<u32>,
}

/// A stored provider, enabled or not.
#[derive(Clone, PartialEq)]
pub struct StoredProvider {
    pub channel: Channel,
    pub row: ProviderRow,
}

impl Control<'_> {
    /// Finds the app's provider with this identifier, enabled or not; None if it does not exist.
    ///
    /// # Errors
    /// The database failed, or a newer release wrote the row.
    pub async fn provider(self, app: AppId, identifier: &str) -> Result<Option<StoredProvider>, Error> {
        let row = sqlx::query(
            "SELECT identifier, channel, kind, priority, settings, sealed, version, max_per_second
             FROM provider WHERE app_id = $1 AND identifier = $2",
        )
        .bind(app.0)
        .bind(identifier)
        .fetch_optional(&self.0.pool)
        .await?;
        row.as_ref().map(read_stored).transpose()
    }

    /// Lists all providers of the app, ordered by channel and then in the order in which they are tried.
    ///
    /// # Errors
    /// The database failed, or a newer release wrote a row.
    pub async fn list_providers(self, app: AppId) -> Result<Vec<ProviderSummary>, Error> {
        sqlx::query(
            "SELECT identifier, channel, kind, priority, enabled, settings, sealed IS NOT NULL AS has_secret,
                    version, updated_at, max_per_second
             FROM provider WHERE app_id = $1 ORDER BY channel, priority, identifier",
        )
        .bind(app.0)
        .fetch_all(&self.0.pool)
        .await?
        .iter()
        .map(read_summary)
        .collect()
    }

    /// Lists the channels for which the app has an enabled provider.
    ///
    /// # Errors
    /// The database failed, or a newer release wrote a row.
    pub async fn enabled_channels(self, app: AppId) -> Result<Vec<Channel>, Error> {
        let names: Vec<String> = sqlx::query_scalar(
            "SELECT DISTINCT channel FROM provider WHERE app_id = $1 AND enabled ORDER BY channel",
        )
        .bind(app.0)
        .fetch_all(&self.0.pool)
        .await?;
        names.iter().map(|name| read_channel(name)).collect()
    }

    /// Lists up to `most` enabled providers of a kind whose apps have messages that await a receipt. Does not check which
    /// of an app's providers accepted these messages.
    pub async fn providers_awaiting_receipts(
        self,
        channel: Channel,
        kind: &str,
        most: u32,
    ) -> Result<Vec<(AppId, ProviderRow)>, Error> {
        let rows = sqlx::query(
            "SELECT app_id, identifier, kind, priority, settings, sealed, version, max_per_second
             FROM provider
             WHERE channel = $1 AND kind = $2 AND enabled
               AND EXISTS (SELECT FROM awaiting_receipt WHERE awaiting_receipt.app_id = provider.app_id)
             ORDER BY app_id, identifier LIMIT $3",
        )
        .bind(channel.as_str())
        .bind(kind)
        .bind(i64::from(most))
        .fetch_all(&self.0.pool)
        .await?;
        let read = |row: &PgRow| Ok((AppId(row.try_get("app_id")?), read_provider(row)?));
        Ok(rows.iter().map(read).collect::<Result<_, sqlx::Error>>()?)
    }

    /// Lists the app's enabled providers for a channel, in the order in which they are tried.
    pub async fn providers(self, app: AppId, channel: Channel) -> Result<Vec<ProviderRow>, Error> {
        let rows = sqlx::query(
            "SELECT identifier, kind, priority, settings, sealed, version, max_per_second FROM provider
             WHERE app_id = $1 AND channel = $2 AND enabled ORDER BY priority, identifier",
        )
        .bind(app.0)
        .bind(channel.as_str())
        .fetch_all(&self.0.pool)
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
        max_per_second: read_limit(row)?,
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
        max_per_second: read_limit(row)?,
    })
}

fn read_stored(row: &PgRow) -> Result<StoredProvider, Error> {
    Ok(StoredProvider { channel: read_channel(row.try_get("channel")?)?, row: read_provider(row)? })
}

fn read_limit(row: &PgRow) -> Result<Option<u32>, sqlx::Error> {
    let limit: Option<i32> = row.try_get("max_per_second")?;
    Ok(limit.and_then(|limit| u32::try_from(limit).ok()))
}
