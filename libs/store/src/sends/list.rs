//! Lists of an app's sends, latest first. Every list follows an index, and returns each row that it reads: filters that no index serves are
//! applied by the caller, which bounds the number of rows.

use chrono::{DateTime, Utc};
use domain::{AppId, SendId, Status, Timestamp, UserNumber};
use uuid::Uuid;

use crate::database::instant::instant;
use crate::sends::status::planned_statuses;
use crate::{Error, Sends};

/// Pairs of a send that are compared with a wanted status.
const COMPARED: i64 = 1_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedSend {
    pub send_id: SendId,
    pub accepted_at: Timestamp,
    /// None if the send is not scheduled.
    pub send_at: Option<Timestamp>,
    pub title: Option<String>,
    /// Identifier of the category; None if it was deleted.
    pub category: Option<String>,
    /// Identifier and version of the template.
    pub template: Option<(String, i32)>,
    pub recipients: i32,
    /// True if further subscribers may follow, so that `recipients` grows.
    pub expanding: bool,
    pub cancelled: bool,
    /// Position of the recipient whose sends are listed.
    pub recipient_index: Option<i32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendsOf<'a> {
    All,
    User(UserNumber),
    /// A recipient that was no user of the app.
    Unknown(&'a str),
}

/// A part of a list of sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendRange {
    /// Exclusive; None for the latest send.
    pub before: Option<SendId>,
    /// Inclusive; compared with the time in the send's id.
    pub since: Option<Timestamp>,
    pub limit: i64,
}

impl SendRange {
    fn bounds(&self) -> (Uuid, DateTime<Utc>) {
        let before = self.before.map_or(Uuid::max(), |send| send.0);
        (before, instant(self.since.unwrap_or(Timestamp::from_millis(0))))
    }
}

struct ListedRow {
    send_id: Uuid,
    accepted_at: DateTime<Utc>,
    send_at: Option<DateTime<Utc>>,
    title: Option<String>,
    category: Option<String>,
    template: Option<String>,
    template_version: Option<i32>,
    recipients: i32,
    expanding: bool,
    cancelled: bool,
    recipient_index: Option<i32>,
}

impl From<ListedRow> for ListedSend {
    fn from(row: ListedRow) -> ListedSend {
        ListedSend {
            send_id: SendId(row.send_id),
            accepted_at: row.accepted_at.into(),
            send_at: row.send_at.map(Into::into),
            title: row.title,
            category: row.category,
            template: row.template.zip(row.template_version),
            recipients: row.recipients,
            expanding: row.expanding,
            cancelled: row.cancelled,
            recipient_index: row.recipient_index,
        }
    }
}

impl Sends<'_> {
    pub async fn list_sends(
        self,
        app: AppId,
        of: SendsOf<'_>,
        range: SendRange,
    ) -> Result<Vec<ListedSend>, Error> {
        let (before, since) = range.bounds();
        let rows = match of {
            SendsOf::All => self.list_all(app, before, since, range.limit).await?,
            SendsOf::User(user) => self.list_of_user(app, user, before, since, range.limit).await?,
            SendsOf::Unknown(name) => self.list_of_unknown(app, name, before, since, range.limit).await?,
        };
        Ok(rows.into_iter().map(ListedSend::from).collect())
    }

    async fn list_all(
        self,
        app: AppId,
        before: Uuid,
        since: DateTime<Utc>,
        limit: i64,
    ) -> Result<Vec<ListedRow>, Error> {
        let rows = sqlx::query_as!(
            ListedRow,
            r#"SELECT r.send_id, r.accepted_at, r.send_at, r.title, r.recipients, r.expanding, r.template_version,
                 r.cancelled_at IS NOT NULL AS "cancelled!", NULL::int AS recipient_index,
                 (SELECT identifier FROM category c WHERE (c.app_id, c.id) = (r.app_id, r.category_id)) AS category,
                 (SELECT identifier FROM template t WHERE (t.app_id, t.id) = (r.app_id, r.template_id)) AS template
               FROM request r WHERE r.app_id = $1 AND r.send_id < $2 AND r.send_id >= send_id_at($3)
               ORDER BY r.send_id DESC LIMIT $4"#,
            app.0,
            before,
            since,
            limit
        )
        .fetch_all(&self.0.pool)
        .await?;
        Ok(rows)
    }

    async fn list_of_user(
        self,
        app: AppId,
        user: UserNumber,
        before: Uuid,
        since: DateTime<Utc>,
        limit: i64,
    ) -> Result<Vec<ListedRow>, Error> {
        let rows = sqlx::query_as!(
            ListedRow,
            r#"SELECT r.send_id, r.accepted_at, r.send_at, r.title, r.recipients, r.expanding, r.template_version,
                 r.cancelled_at IS NOT NULL AS "cancelled!", p.recipient_index AS "recipient_index?",
                 (SELECT identifier FROM category c WHERE (c.app_id, c.id) = (r.app_id, r.category_id)) AS category,
                 (SELECT identifier FROM template t WHERE (t.app_id, t.id) = (r.app_id, r.template_id)) AS template
               FROM planned_recipient p JOIN request r ON r.app_id = p.app_id AND r.send_id = p.send_id
               WHERE p.user_number = $2 AND p.app_id = $1 AND p.send_id < $3 AND p.send_id >= send_id_at($4)
               ORDER BY p.send_id DESC LIMIT $5"#,
            app.0,
            user.0,
            before,
            since,
            limit
        )
        .fetch_all(&self.0.pool)
        .await?;
        Ok(rows)
    }

    async fn list_of_unknown(
        self,
        app: AppId,
        name: &str,
        before: Uuid,
        since: DateTime<Utc>,
        limit: i64,
    ) -> Result<Vec<ListedRow>, Error> {
        let rows = sqlx::query_as!(
            ListedRow,
            r#"SELECT r.send_id, r.accepted_at, r.send_at, r.title, r.recipients, r.expanding, r.template_version,
                 r.cancelled_at IS NOT NULL AS "cancelled!", p.recipient_index AS "recipient_index?",
                 (SELECT identifier FROM category c WHERE (c.app_id, c.id) = (r.app_id, r.category_id)) AS category,
                 (SELECT identifier FROM template t WHERE (t.app_id, t.id) = (r.app_id, r.template_id)) AS template
               FROM planned_recipient p JOIN request r ON r.app_id = p.app_id AND r.send_id = p.send_id
               WHERE p.app_id = $1 AND p.identifier = $2 AND p.user_number IS NULL AND p.send_id < $3
                 AND p.send_id >= send_id_at($4)
               ORDER BY p.send_id DESC LIMIT $5"#,
            app.0,
            name,
            before,
            since,
            limit
        )
        .fetch_all(&self.0.pool)
        .await?;
        Ok(rows)
    }

    /// Returns those of the sends that have a pair with the status among their first 1,000 deliveries and recipients.
    pub async fn sends_with_status(
        self,
        app: AppId,
        sends: &[SendId],
        status: Status,
    ) -> Result<Vec<SendId>, Error> {
        let found = sqlx::query_scalar!(
            r#"SELECT asked.send_id AS "send_id!" FROM unnest($2::uuid[]) AS asked (send_id)
               WHERE EXISTS (
                 SELECT FROM (SELECT status FROM delivery d WHERE d.send_id = asked.send_id AND d.app_id = $1 LIMIT $5) AS d
                 WHERE d.status = $3
               ) OR EXISTS (
                 SELECT FROM (SELECT skips FROM planned_recipient p WHERE p.app_id = $1 AND p.send_id = asked.send_id
                   LIMIT $5) AS p CROSS JOIN unnest(p.skips) AS skip
                 WHERE coalesce($4::jsonb ->> split_part(skip, ':', 2), 'skipped') = $3
               ) OR $3 = 'delivered' AND EXISTS (
                 SELECT FROM inbox_item i WHERE i.app_id = $1 AND i.send_id = asked.send_id
               ) OR $3 = 'waiting' AND EXISTS (
                 SELECT FROM timer t WHERE t.app_id = $1 AND t.send_id = asked.send_id AND t.delivery_id IS NOT NULL
               )"#,
            app.0,
            &sends.iter().map(|send| send.0).collect::<Vec<_>>(),
            status.as_str(),
            planned_statuses() as _,
            COMPARED
        )
        .fetch_all(&self.0.pool)
        .await?;
        Ok(found.into_iter().map(SendId).collect())
    }
}
