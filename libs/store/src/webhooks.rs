//! Webhooks: HTTP endpoints of apps, which Tidings calls when an event occurs, such as the outcome of a delivery.

mod intake;
mod message;
mod outgoing;

use std::time::Duration;

use domain::webhook::WebhookEvent;
use domain::{Action, Actor, AppId, Timestamp};
use sqlx::{PgConnection, Postgres, Transaction};

use crate::{Error, Webhooks, database::audit::AuditEntry};

pub use intake::{Listener, NewMessage, ReadItem, WebhookBatch};
pub use message::{FailedMessage, PruneFrom};
pub use outgoing::{AttemptResult, Behind, Depths, DueMessage, Pace, Search, Settlement, Target};

/// Name of the projection in the table `checkpoint` that turns events into messages for endpoints.
pub const WEBHOOKS: &str = "webhooks";
/// Per app.
pub const MAX_ENDPOINTS: i64 = 20;

/// An endpoint without its secrets, for operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub id: i64,
    /// Unique in the app.
    pub url: String,
    pub events: Vec<WebhookEvent>,
    /// The endpoint receives events that occurred at or after this time.
    pub since: Timestamp,
    /// Start of the current series of failed calls; None if the last call succeeded.
    pub failing_since: Option<Timestamp>,
    /// Time and reason; None if the endpoint is enabled.
    pub disabled: Option<(Timestamp, String)>,
    /// Number of valid secrets. Each of them signs every call.
    pub secrets: u32,
    /// Number of the newest secret.
    pub newest_secret: i64,
    /// Messages that wait to be sent; at most 100,000 are counted.
    pub pending: u64,
    /// Messages that were given up; at most 100,000 are counted.
    pub failed: u64,
}

/// An endpoint in an open transaction. If the value is dropped without [`EndpointDraft::commit`], nothing changes.
#[derive(Debug)]
pub struct EndpointDraft {
    transaction: Transaction<'static, Postgres>,
    app: AppId,
    id: i64,
    url: String,
    /// None for a new endpoint.
    former: Option<EndpointState>,
}

/// Values of an endpoint that [`Webhooks::put_endpoint`] replaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointState {
    pub events: Vec<WebhookEvent>,
    pub enabled: bool,
}

impl Webhooks<'_> {
    /// A disabled endpoint is enabled again. Returns None if the app already has [`MAX_ENDPOINTS`] other endpoints.
    pub async fn put_endpoint(
        self,
        app: AppId,
        url: &str,
        events: &[WebhookEvent],
    ) -> Result<Option<EndpointDraft>, Error> {
        let mut transaction = self.0.begin().await?;
        // The row lock serializes concurrent calls for one app, so that the limit is not exceeded.
        sqlx::query!("SELECT FROM app WHERE id = $1 FOR UPDATE", app.0).execute(&mut *transaction).await?;
        let others = sqlx::query_scalar!(
            r#"SELECT count(*) AS "count!" FROM webhook_endpoint WHERE app_id = $1 AND url <> $2"#,
            app.0,
            url
        )
        .fetch_one(&mut *transaction)
        .await?;
        if others >= MAX_ENDPOINTS {
            return Ok(None);
        }
        let former = sqlx::query!(
            r#"SELECT events, disabled_at IS NULL AS "enabled!" FROM webhook_endpoint WHERE app_id = $1 AND url = $2 FOR UPDATE"#,
            app.0,
            url
        )
        .fetch_optional(&mut *transaction)
        .await?;
        let former = match former {
            Some(row) => Some(EndpointState { events: read_events(&row.events)?, enabled: row.enabled }),
            None => None,
        };
        let id = sqlx::query_scalar!(
            r#"INSERT INTO webhook_endpoint (app_id, url, events) VALUES ($1, $2, $3)
             ON CONFLICT (app_id, url) DO UPDATE SET events = excluded.events, failures = 0, failing_since = NULL,
                 paused_until = NULL, disabled_at = NULL, disabled_reason = NULL
             RETURNING id"#,
            app.0,
            url,
            &events.iter().map(|event| event.as_str()).collect::<Vec<_>>() as &[&str]
        )
        .fetch_one(&mut *transaction)
        .await?;
        Ok(Some(EndpointDraft { transaction, app, id, url: url.to_owned(), former }))
    }

    /// Oldest first.
    /// Returns true if an app has an enabled endpoint.
    pub async fn has_endpoints(self) -> Result<bool, Error> {
        let exists = sqlx::query_scalar!(
            r#"SELECT EXISTS (SELECT FROM webhook_endpoint WHERE disabled_at IS NULL) AS "exists!""#
        );
        Ok(exists.fetch_one(&self.0.pool).await?)
    }

    pub async fn endpoints(self, app: AppId) -> Result<Vec<Endpoint>, Error> {
        let rows = sqlx::query!(
            r#"SELECT e.id, e.url, e.events, e.since, e.failing_since, e.disabled_at, e.disabled_reason, (
                 SELECT count(*) FROM webhook_secret s
                 WHERE (s.app_id, s.endpoint_id) = (e.app_id, e.id) AND (s.expires_at IS NULL OR s.expires_at > now())
               ) AS "secrets!", (
                 SELECT coalesce(max(s.id), 0) FROM webhook_secret s WHERE (s.app_id, s.endpoint_id) = (e.app_id, e.id)
               ) AS "newest_secret!", (
                 SELECT count(*) FROM (
                   SELECT FROM webhook_message w
                   WHERE w.app_id = e.app_id AND w.endpoint_id = e.id AND w.settled_at IS NULL LIMIT $2
                 ) AS waiting
               ) AS "pending!", (
                 SELECT count(*) FROM (
                   SELECT FROM webhook_message f
                   WHERE f.app_id = e.app_id AND f.endpoint_id = e.id AND f.status = 'failed' LIMIT $2
                 ) AS given_up
               ) AS "failed!"
             FROM webhook_endpoint e WHERE e.app_id = $1 ORDER BY e.id"#,
            app.0,
            message::MAX_COUNTED
        )
        .fetch_all(&self.0.pool)
        .await?;
        rows.into_iter()
            .map(|row| {
                Ok(Endpoint {
                    id: row.id,
                    url: row.url,
                    events: read_events(&row.events)?,
                    since: row.since.into(),
                    failing_since: row.failing_since.map(Timestamp::from),
                    disabled: row.disabled_at.map(|at| (at.into(), row.disabled_reason.unwrap_or_default())),
                    secrets: u32::try_from(row.secrets).unwrap_or(u32::MAX),
                    newest_secret: row.newest_secret,
                    pending: row.pending.unsigned_abs(),
                    failed: row.failed.unsigned_abs(),
                })
            })
            .collect()
    }

    /// First disables the endpoint, then removes its messages in several transactions, and finally removes the endpoint. After an error,
    /// the caller can repeat the call to continue. Returns false if the endpoint is unknown.
    pub async fn remove_endpoint(self, app: AppId, id: i64, actor: &Actor) -> Result<bool, Error> {
        sqlx::query!(
            "UPDATE webhook_endpoint SET disabled_at = now(), disabled_reason = 'removed'
             WHERE app_id = $1 AND id = $2 AND disabled_at IS NULL",
            app.0,
            id
        )
        .execute(&self.0.pool)
        .await?;
        self.remove_messages(app, id).await?;
        let mut transaction = self.0.begin().await?;
        let url = sqlx::query_scalar!(
            "DELETE FROM webhook_endpoint WHERE app_id = $1 AND id = $2 RETURNING url",
            app.0,
            id
        )
        .fetch_optional(&mut *transaction)
        .await?;
        let Some(url) = url else { return Ok(false) };
        AuditEntry::new(app, actor, Action::WebhookRemove, &audited(id, &url))
            .write(&mut transaction)
            .await?;
        transaction.commit().await?;
        Ok(true)
    }

    /// Adds a secret, encrypted with the master key in the context `webhook-secret:{app}:{endpoint}`. The newest previous secret stays
    /// valid for `grace`; older secrets are removed now. Returns false if the endpoint is unknown, or if its newest secret is not `seen`.
    pub async fn rotate_webhook_secret(
        self,
        app: AppId,
        endpoint: i64,
        sealed: &[u8],
        (grace, seen): (Duration, Option<i64>),
        actor: &Actor,
    ) -> Result<bool, Error> {
        let mut transaction = self.0.begin().await?;
        let url = sqlx::query_scalar!(
            "SELECT url FROM webhook_endpoint WHERE app_id = $1 AND id = $2 FOR UPDATE",
            app.0,
            endpoint
        )
        .fetch_optional(&mut *transaction)
        .await?;
        let Some(url) = url else { return Ok(false) };
        let newest = sqlx::query_scalar!(
            "SELECT max(id) FROM webhook_secret WHERE app_id = $1 AND endpoint_id = $2",
            app.0,
            endpoint
        )
        .fetch_one(&mut *transaction)
        .await?;
        if seen.is_some() && newest != seen {
            return Ok(false);
        }
        sqlx::query!(
            "WITH newest AS (
               SELECT max(id) AS id FROM webhook_secret WHERE app_id = $1 AND endpoint_id = $2
             ), ended AS (
               DELETE FROM webhook_secret s USING newest
               WHERE s.app_id = $1 AND s.endpoint_id = $2 AND s.id <> newest.id
             )
             UPDATE webhook_secret s SET expires_at = now() + $3::float8 * interval '1 second' FROM newest
             WHERE s.app_id = $1 AND s.endpoint_id = $2 AND s.id = newest.id",
            app.0,
            endpoint,
            grace.as_secs_f64()
        )
        .execute(&mut *transaction)
        .await?;
        insert_secret(&mut transaction, app, endpoint, sealed).await?;
        AuditEntry::new(app, actor, Action::WebhookSecretRotate, &audited(endpoint, &url))
            .write(&mut transaction)
            .await?;
        transaction.commit().await?;
        Ok(true)
    }

    /// Valid secrets in encrypted form, newest first.
    pub async fn webhook_secrets(self, app: AppId, endpoint: i64) -> Result<Vec<Vec<u8>>, Error> {
        Ok(sqlx::query_scalar!(
            "SELECT sealed FROM webhook_secret
             WHERE app_id = $1 AND endpoint_id = $2 AND (expires_at IS NULL OR expires_at > now()) ORDER BY id DESC",
            app.0,
            endpoint
        )
        .fetch_all(&self.0.pool)
        .await?)
    }
}

impl EndpointDraft {
    #[must_use]
    pub fn id(&self) -> i64 {
        self.id
    }

    /// Returns true if the app had no endpoint with this URL before.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.former.is_none()
    }

    /// Returns the values that the draft replaces; None for a new endpoint.
    #[must_use]
    pub fn former(&self) -> Option<&EndpointState> {
        self.former.as_ref()
    }

    /// Also adds a secret, which a new endpoint needs.
    pub async fn commit(mut self, sealed: Option<&[u8]>, actor: &Actor) -> Result<(), Error> {
        if let Some(sealed) = sealed {
            insert_secret(&mut self.transaction, self.app, self.id, sealed).await?;
        }
        AuditEntry::new(self.app, actor, Action::WebhookSet, &audited(self.id, &self.url))
            .write(&mut self.transaction)
            .await?;
        self.transaction.commit().await?;
        Ok(())
    }
}

/// Formats an endpoint for the audit log with only the scheme and host of its URL. The other parts may contain credentials.
fn audited(id: i64, url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{id} {scheme}://{host}")
}

async fn insert_secret(
    connection: &mut PgConnection,
    app: AppId,
    endpoint: i64,
    sealed: &[u8],
) -> Result<(), Error> {
    sqlx::query!(
        "INSERT INTO webhook_secret (app_id, endpoint_id, sealed) VALUES ($1, $2, $3)",
        app.0,
        endpoint,
        sealed
    )
    .execute(connection)
    .await?;
    Ok(())
}

fn read_events(names: &[String]) -> Result<Vec<WebhookEvent>, Error> {
    names.iter().map(|name| Ok(name.parse()?)).collect()
}
