//! The audit log records which actor changed, erased or cancelled which object. A row is written in the same transaction as
//! the change that it records. Rows are immutable: a trigger and the grants of the service role enforce this.

use chrono::{DateTime, Utc};
use domain::{Action, Actor, ActorKind, AppId, Channel, Timestamp, UserNumber};
use serde_json::{Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::database::instant::instant;
use crate::{Database, Error};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRow {
    pub id: i64,
    /// None if the row is about the installation.
    pub app: Option<AppId>,
    pub at: Timestamp,
    /// `cli:` followed by the operator's account, or `api:` followed by the IP address of the caller that used the API
    /// secret.
    pub actor: String,
    /// None if release 0.5.0 or earlier wrote the row.
    pub actor_kind: Option<ActorKind>,
    /// For instance `app.set`, `user.erase` or `request.cancel`.
    pub action: String,
    /// Name or number of the object that the action affected, without personal data.
    pub subject: String,
    /// Members that the action changed, with their previous values, without secrets.
    pub before: Option<Value>,
    pub after: Option<Value>,
    /// Address of the caller; None for commands.
    pub ip: Option<String>,
    /// Request of the console that made the change.
    pub request: Option<Uuid>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditFilter {
    pub scope: AuditScope,
    /// Only rows by this kind of actor. Rows of release 0.5.0 or earlier have no kind.
    pub actor_kind: Option<ActorKind>,
    /// Only rows from this time on.
    pub since: Option<Timestamp>,
}

/// Objects whose rows are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditScope {
    All,
    App(AppId),
    /// The installation itself: rows that belong to no app.
    Installation,
}

impl From<AppId> for AuditFilter {
    /// Selects all rows of an app.
    fn from(app: AppId) -> AuditFilter {
        AuditFilter { scope: AuditScope::App(app), actor_kind: None, since: None }
    }
}

#[derive(Debug)]
pub(crate) struct AuditEntry<'a> {
    app: Option<AppId>,
    actor: &'a Actor,
    action: Action,
    subject: &'a str,
    before: Option<Value>,
    after: Option<Value>,
}

impl<'a> AuditEntry<'a> {
    pub(crate) fn new(
        app: impl Into<Option<AppId>>,
        actor: &'a Actor,
        action: Action,
        subject: &'a str,
    ) -> Self {
        AuditEntry { app: app.into(), actor, action, subject, before: None, after: None }
    }

    /// The values must contain no secrets and no personal data.
    pub(crate) fn changed(self, before: Option<Value>, after: Option<Value>) -> Self {
        AuditEntry { before, after, ..self }
    }

    pub(crate) async fn write(self, connection: &mut PgConnection) -> Result<(), Error> {
        sqlx::query!(
            "INSERT INTO audit (app_id, actor, actor_kind, action, subject, before, after, ip, request_id)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
            self.app.map(|app| app.0),
            self.actor.to_string(),
            self.actor.kind().as_str(),
            self.action.as_str(),
            self.subject,
            self.before,
            self.after,
            self.actor.ip().map(|ip| ip.to_string()),
            self.actor.request()
        )
        .execute(connection)
        .await?;
        Ok(())
    }
}

struct AuditRecord {
    id: i64,
    app_id: Option<i64>,
    at: DateTime<Utc>,
    actor: String,
    actor_kind: Option<String>,
    action: String,
    subject: String,
    before: Option<Value>,
    after: Option<Value>,
    ip: Option<String>,
    request_id: Option<Uuid>,
}

impl Database<'_> {
    /// Writes the row about a target that was shown in full. The reason must contain no personal data.
    pub async fn note_reveal(
        self,
        app: AppId,
        user: UserNumber,
        (channel, reason): (Channel, &str),
        actor: &Actor,
    ) -> Result<(), Error> {
        let mut transaction = self.0.begin().await?;
        let subject = format!("user {user}");
        let entry = AuditEntry::new(app, actor, Action::TargetReveal, &subject);
        let entry = entry.changed(None, Some(json!({"channel": channel, "reason": reason})));
        entry.write(&mut transaction).await?;
        transaction.commit().await?;
        Ok(())
    }

    /// Latest rows first.
    pub async fn list_audit(self, filter: AuditFilter, limit: i64) -> Result<Vec<AuditRow>, Error> {
        let AuditFilter { scope, actor_kind, since } = filter;
        let (since, kind) = (since.map(instant), actor_kind.map(ActorKind::as_str));
        // Separate statements, so that the rows of an app are always read by their index.
        let rows = match scope {
            AuditScope::App(app) => {
                sqlx::query_as!(
                    AuditRecord,
                    "SELECT id, app_id, at, actor, actor_kind, action, subject, before, after, ip, request_id FROM audit
                     WHERE app_id = $1 AND ($2::timestamptz IS NULL OR at >= $2) AND ($3::text IS NULL OR actor_kind = $3)
                     ORDER BY id DESC LIMIT $4",
                    app.0,
                    since,
                    kind,
                    limit
                )
                .fetch_all(&self.0.pool)
                .await?
            }
            AuditScope::All | AuditScope::Installation => {
                sqlx::query_as!(
                    AuditRecord,
                    "SELECT id, app_id, at, actor, actor_kind, action, subject, before, after, ip, request_id FROM audit
                     WHERE ($1 OR app_id IS NULL) AND ($2::timestamptz IS NULL OR at >= $2)
                       AND ($3::text IS NULL OR actor_kind = $3)
                     ORDER BY id DESC LIMIT $4",
                    scope == AuditScope::All,
                    since,
                    kind,
                    limit
                )
                .fetch_all(&self.0.pool)
                .await?
            }
        };
        rows.into_iter().map(AuditRow::try_from).collect()
    }

    /// Lists the rows of an app or, if `app` is None, all rows: those before the row `before`, from a time on, latest first.
    pub async fn audit_before(
        self,
        app: Option<AppId>,
        before: Option<i64>,
        since: Option<Timestamp>,
        limit: i64,
    ) -> Result<Vec<AuditRow>, Error> {
        let (before, since) = (before.unwrap_or(i64::MAX), since.map(instant));
        let rows = match app {
            Some(app) => {
                sqlx::query_as!(
                    AuditRecord,
                    "SELECT id, app_id, at, actor, actor_kind, action, subject, before, after, ip, request_id FROM audit
                     WHERE app_id = $1 AND id < $2 AND ($3::timestamptz IS NULL OR at >= $3) ORDER BY id DESC LIMIT $4",
                    app.0,
                    before,
                    since,
                    limit
                )
                .fetch_all(&self.0.pool)
                .await?
            }
            None => {
                sqlx::query_as!(
                    AuditRecord,
                    "SELECT id, app_id, at, actor, actor_kind, action, subject, before, after, ip, request_id FROM audit
                     WHERE id < $1 AND ($2::timestamptz IS NULL OR at >= $2) ORDER BY id DESC LIMIT $3",
                    before,
                    since,
                    limit
                )
                .fetch_all(&self.0.pool)
                .await?
            }
        };
        rows.into_iter().map(AuditRow::try_from).collect()
    }
}

impl TryFrom<AuditRecord> for AuditRow {
    type Error = Error;

    fn try_from(row: AuditRecord) -> Result<AuditRow, Error> {
        Ok(AuditRow {
            id: row.id,
            app: row.app_id.map(AppId),
            at: row.at.into(),
            actor: row.actor,
            actor_kind: row.actor_kind.map(|kind| kind.parse()).transpose()?,
            action: row.action,
            subject: row.subject,
            before: row.before,
            after: row.after,
            ip: row.ip,
            request: row.request_id,
        })
    }
}
