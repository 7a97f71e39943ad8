mod change;

use std::collections::BTreeMap;

use domain::{AppId, Channel, Timestamp};
use serde_json::Value;

use crate::{Control, Error};

pub use change::{ProviderEdit, SecretNames};

#[derive(Clone, Copy)]
pub struct NewProvider<'a> {
    pub identifier: &'a str,
    pub channel: Channel,
    /// For instance `smtp`.
    pub kind: &'a str,
    /// Providers with lower numbers are tried first.
    pub priority: i32,
    pub enabled: bool,
    pub settings: &'a Value,
    pub secret: SecretChange<'a>,
    /// Limit for each worker, at least 1; None for no limit.
    pub max_per_second: Option<u32>,
}

/// If the channel or the kind changes, the old secrets are removed even with [`SecretChange::Keep`].
#[derive(Clone, Copy)]
pub enum SecretChange<'a> {
    Keep,
    Remove,
    /// Encrypted with the master key in the context `provider:{app}:{identifier}`.
    Replace(&'a [u8]),
}

#[derive(Clone, Debug, PartialEq)]
pub struct ProviderSummary {
    pub identifier: String,
    pub channel: Channel,
    pub kind: String,
    pub priority: i32,
    pub enabled: bool,
    pub settings: Value,
    pub has_secret: bool,
    /// Secrets by name, with the time at which each was set; None if the time is not known. Empty if an earlier release set all of them.
    pub secrets: BTreeMap<String, Option<Timestamp>>,
    pub version: i64,
    pub updated_at: Timestamp,
    pub max_per_second: Option<u32>,
}

#[derive(Clone, PartialEq)]
pub struct ProviderRow {
    pub identifier: String,
    pub kind: String,
    pub priority: i32,
    pub settings: Value,
    /// None if the provider has no secrets.
    pub sealed: Option<Vec<u8>>,
    /// Starts at 1 and grows with every change.
    pub version: i64,
    pub max_per_second: Option<u32>,
}

#[derive(Clone, PartialEq)]
pub struct StoredProvider {
    pub channel: Channel,
    pub row: ProviderRow,
}

impl Control<'_> {
    /// Finds the provider even if it is disabled.
    pub async fn provider(self, app: AppId, identifier: &str) -> Result<Option<StoredProvider>, Error> {
        let row = sqlx::query_as!(
            StoredRow,
            "SELECT app_id, identifier, channel, kind, priority, settings, sealed, version, max_per_second
             FROM provider WHERE app_id = $1 AND identifier = $2",
            app.0,
            identifier
        )
        .fetch_optional(&self.0.pool)
        .await?;
        row.map(StoredProvider::try_from).transpose()
    }

    /// Lists the channels for which an app has an enabled provider.
    pub async fn channels_with_provider(self) -> Result<Vec<Channel>, Error> {
        let channels = sqlx::query_scalar!("SELECT DISTINCT channel FROM provider WHERE enabled");
        channels.fetch_all(&self.0.pool).await?.iter().map(|channel| read_channel(channel)).collect()
    }

    /// Lists all providers of the app by channel, then in the order in which workers try them.
    pub async fn list_providers(self, app: AppId) -> Result<Vec<ProviderSummary>, Error> {
        let rows = sqlx::query!(
            r#"SELECT identifier, channel, kind, priority, enabled, settings, sealed IS NOT NULL AS "has_secret!",
                    set_times, version, updated_at, max_per_second
             FROM provider WHERE app_id = $1 ORDER BY channel, priority, identifier"#,
            app.0
        )
        .fetch_all(&self.0.pool)
        .await?;
        rows.into_iter()
            .map(|row| {
                Ok(ProviderSummary {
                    identifier: row.identifier,
                    channel: read_channel(&row.channel)?,
                    kind: row.kind,
                    priority: row.priority,
                    enabled: row.enabled,
                    settings: row.settings,
                    has_secret: row.has_secret,
                    secrets: row.set_times.map(read_secrets).unwrap_or_default(),
                    version: row.version,
                    updated_at: row.updated_at.into(),
                    max_per_second: read_limit(row.max_per_second),
                })
            })
            .collect()
    }

    pub async fn enabled_channels(self, app: AppId) -> Result<Vec<Channel>, Error> {
        let names: Vec<String> = sqlx::query_scalar!(
            "SELECT DISTINCT channel FROM provider WHERE app_id = $1 AND enabled ORDER BY channel",
            app.0
        )
        .fetch_all(&self.0.pool)
        .await?;
        names.iter().map(|name| read_channel(name)).collect()
    }

    /// Includes every enabled provider of an app that has a message awaiting a receipt, even if another provider accepted the message.
    pub async fn providers_awaiting_receipts(
        self,
        channel: Channel,
        kind: &str,
        most: u32,
    ) -> Result<Vec<(AppId, ProviderRow)>, Error> {
        let rows = sqlx::query_as!(
            StoredRow,
            "SELECT app_id, identifier, channel, kind, priority, settings, sealed, version, max_per_second
             FROM provider
             WHERE channel = $1 AND kind = $2 AND enabled
               AND EXISTS (SELECT FROM awaiting_receipt WHERE awaiting_receipt.app_id = provider.app_id)
             ORDER BY app_id, identifier LIMIT $3",
            channel.as_str(),
            kind,
            i64::from(most)
        )
        .fetch_all(&self.0.pool)
        .await?;
        Ok(rows.into_iter().map(|row| (row.app_id, row.into())).collect())
    }

    /// Lists the enabled providers in the order in which workers try them.
    pub async fn providers(self, app: AppId, channel: Channel) -> Result<Vec<ProviderRow>, Error> {
        let rows = sqlx::query_as!(
            StoredRow,
            "SELECT app_id, identifier, channel, kind, priority, settings, sealed, version, max_per_second
             FROM provider
             WHERE app_id = $1 AND channel = $2 AND enabled ORDER BY priority, identifier",
            app.0,
            channel.as_str()
        )
        .fetch_all(&self.0.pool)
        .await?;
        Ok(rows.into_iter().map(Into::into).collect())
    }
}

struct StoredRow {
    app_id: AppId,
    identifier: String,
    channel: String,
    kind: String,
    priority: i32,
    settings: Value,
    sealed: Option<Vec<u8>>,
    version: i64,
    max_per_second: Option<i32>,
}

impl TryFrom<StoredRow> for StoredProvider {
    type Error = Error;

    fn try_from(row: StoredRow) -> Result<StoredProvider, Error> {
        Ok(StoredProvider { channel: read_channel(&row.channel)?, row: row.into() })
    }
}

impl From<StoredRow> for ProviderRow {
    fn from(row: StoredRow) -> ProviderRow {
        ProviderRow {
            identifier: row.identifier,
            kind: row.kind,
            priority: row.priority,
            settings: row.settings,
            sealed: row.sealed,
            version: row.version,
            max_per_second: read_limit(row.max_per_second),
        }
    }
}

fn read_channel(name: &str) -> Result<Channel, Error> {
    name.parse().map_err(|error: domain::problem::UnknownName| Error::Unreadable(error.to_string()))
}

fn read_secrets(times: Value) -> BTreeMap<String, Option<Timestamp>> {
    let Value::Object(times) = times else { return BTreeMap::new() };
    times.into_iter().map(|(name, time)| (name, time.as_i64().map(Timestamp::from_millis))).collect()
}

fn read_limit(limit: Option<i32>) -> Option<u32> {
    limit.and_then(|limit| u32::try_from(limit).ok())
}
