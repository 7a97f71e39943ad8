//! Providers: the external services, such as an SMTP server, through which an app's deliveries are sent.

mod change;

use domain::{AppId, Channel, Timestamp};
use serde_json::Value;

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

/// Change to the stored secrets when a provider is replaced. If the channel or the kind changes, the old secrets are removed
/// even with [`SecretChange::Keep`].
#[derive(Clone, Copy)]
pub enum SecretChange<'a> {
    /// Keeps the stored secrets.
    Keep,
    /// Removes the stored secrets.
    Remove,
    /// Replaces the stored secrets with the given secrets, which are encrypted with the master key in the context
    /// `provider:{app}:{identifier}`.
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

/// A provider with its encrypted secrets, for the workers of its channel.
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
    /// Secrets, encrypted with the master key in the context `provider:{app}:{identifier}`; None if there are none.
    pub sealed: Option<Vec<u8>>,
    /// Starts at 1 and grows with every change.
    pub version: i64,
    /// Maximum number of calls per second by one worker; None for no limit.
    pub max_per_second: Option<u32>,
}

/// A provider, enabled or not, with its channel.
#[derive(Clone, PartialEq)]
pub struct StoredProvider {
    pub channel: Channel,
    pub row: ProviderRow,
}

impl Control<'_> {
    /// Finds the app's provider with this identifier, whether it is enabled or not. Returns None if it does not exist.
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

    /// Lists all providers of the app by channel. Within a channel, they are in the order in which workers try them.
    pub async fn list_providers(self, app: AppId) -> Result<Vec<ProviderSummary>, Error> {
        let rows = sqlx::query!(
            r#"SELECT identifier, channel, kind, priority, enabled, settings, sealed IS NOT NULL AS "has_secret!",
                    version, updated_at, max_per_second
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
                    version: row.version,
                    updated_at: row.updated_at.into(),
                    max_per_second: read_limit(row.max_per_second),
                })
            })
            .collect()
    }

    /// Lists the channels for which the app has an enabled provider.
    pub async fn enabled_channels(self, app: AppId) -> Result<Vec<Channel>, Error> {
        let names: Vec<String> = sqlx::query_scalar!(
            "SELECT DISTINCT channel FROM provider WHERE app_id = $1 AND enabled ORDER BY channel",
            app.0
        )
        .fetch_all(&self.0.pool)
        .await?;
        names.iter().map(|name| read_channel(name)).collect()
    }

    /// Lists up to `most` enabled providers of the kind. Includes every such provider of an app that has a message awaiting
    /// a receipt, even if another provider accepted the message.
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

    /// Lists the app's enabled providers for a channel, in the order in which workers try them.
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

/// A row of the table `provider`.
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

fn read_limit(limit: Option<i32>) -> Option<u32> {
    limit.and_then(|limit| u32::try_from(limit).ok())
}
