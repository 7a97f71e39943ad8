//! The audit log records which actor changed, erased or cancelled which object. A row is written in the same transaction as
//! the change that it records. Rows are immutable: a trigger and the grants of the service role enforce this.

use domain::{Action, Actor, ActorKind, AppId, Timestamp};
use serde_json::Value;
use sqlx::PgConnection;

use crate::database::instant::instant;
use crate::{Database, Error};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRow {
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
            "INSERT INTO audit (app_id, actor, actor_kind, action, subject, before, after)
             VALUES ($1, $2, $3, $4, $5, $6, $7)",
            self.app.map(|app| app.0),
            self.actor.to_string(),
            self.actor.kind().as_str(),
            self.action.as_str(),
            self.subject,
            self.before,
            self.after
        )
        .execute(connection)
        .await?;
        Ok(())
    }
}

impl Database<'_> {
    /// Latest rows first.
    pub async fn list_audit(
        self,
        app: AppId,
        since: Option<Timestamp>,
        limit: i64,
    ) -> Result<Vec<AuditRow>, Error> {
        let rows = sqlx::query!(
            "SELECT at, actor, actor_kind, action, subject, before, after FROM audit
             WHERE app_id = $1 AND ($2::timestamptz IS NULL OR at >= $2) ORDER BY id DESC LIMIT $3",
            app.0,
            since.map(instant),
            limit
        )
        .fetch_all(&self.0.pool)
        .await?;
        rows.into_iter()
            .map(|row| {
                Ok(AuditRow {
                    at: row.at.into(),
                    actor: row.actor,
                    actor_kind: row.actor_kind.map(|kind| kind.parse()).transpose()?,
                    action: row.action,
                    subject: row.subject,
                    before: row.before,
                    after: row.after,
                })
            })
            .collect()
    }
}
