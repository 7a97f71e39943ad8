//! Stored facts about a send and one of its recipients, read by keys.

use domain::target::masked;
use domain::{AppId, Channel, DeliveryId, SendId, Timestamp, UserNumber};

use crate::database::columns::columns;
use crate::{Error, Sends};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRequest {
    pub accepted_at: Timestamp,
    /// None if the send is not scheduled.
    pub send_at: Option<Timestamp>,
    pub expires_at: Option<Timestamp>,
    pub title: Option<String>,
    pub category: Option<String>,
    /// Template and version.
    pub template: Option<(String, i32)>,
    pub cancelled_at: Option<Timestamp>,
    /// True if chunks of the send are still to be planned.
    pub is_open: bool,
}

/// Times of an inbox item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemTimes {
    pub seen_at: Option<Timestamp>,
    pub read_at: Option<Timestamp>,
    pub deleted_at: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuppressedTarget {
    pub channel: Channel,
    /// Masked.
    pub target: String,
    /// Delivery that led to the suppression.
    pub delivery: DeliveryId,
    pub code: String,
    pub since: Timestamp,
}

impl Sends<'_> {
    pub async fn find_stored_request(self, app: AppId, send: SendId) -> Result<Option<StoredRequest>, Error> {
        let row = sqlx::query!(
            r#"SELECT r.accepted_at, r.send_at, r.expires_at, r.title, r.template_version, r.cancelled_at,
                 r.body IS NOT NULL OR r.expanding AS "is_open!",
                 (SELECT identifier FROM category c WHERE (c.app_id, c.id) = (r.app_id, r.category_id)) AS category,
                 (SELECT identifier FROM template t WHERE (t.app_id, t.id) = (r.app_id, r.template_id)) AS template
               FROM request r WHERE r.app_id = $1 AND r.send_id = $2"#,
            app.0,
            send.0
        )
        .fetch_optional(&self.0.pool)
        .await?;
        Ok(row.map(|row| StoredRequest {
            accepted_at: row.accepted_at.into(),
            send_at: row.send_at.map(Into::into),
            expires_at: row.expires_at.map(Into::into),
            title: row.title,
            category: row.category,
            template: row.template.zip(row.template_version),
            cancelled_at: row.cancelled_at.map(Into::into),
            is_open: row.is_open,
        }))
    }

    /// Returns the position of a recipient in a send; None if it was not planned for the recipient. `user` is None if the recipient is no
    /// user of the app.
    pub async fn find_recipient(
        self,
        app: AppId,
        send: SendId,
        user: Option<UserNumber>,
        identifier: &str,
    ) -> Result<Option<i32>, Error> {
        let found = match user {
            Some(user) => {
                sqlx::query_scalar!(
                    "SELECT recipient_index FROM planned_recipient
                     WHERE user_number = $2 AND app_id = $1 AND send_id = $3 LIMIT 1",
                    app.0,
                    user.0,
                    send.0
                )
                .fetch_optional(&self.0.pool)
                .await?
            }
            None => None,
        };
        if found.is_some() {
            return Ok(found);
        }
        // The app created the user after the send.
        let unknown = sqlx::query_scalar!(
            "SELECT recipient_index FROM planned_recipient
             WHERE app_id = $1 AND identifier = $2 AND user_number IS NULL AND send_id = $3 LIMIT 1",
            app.0,
            identifier,
            send.0
        );
        Ok(unknown.fetch_optional(&self.0.pool).await?)
    }

    pub async fn item_times(
        self,
        app: AppId,
        send: SendId,
        user: UserNumber,
    ) -> Result<Option<ItemTimes>, Error> {
        let row = sqlx::query!(
            "SELECT seen_at, clicked_at, deleted_at FROM inbox_item
             WHERE app_id = $1 AND send_id = $2 AND user_number = $3",
            app.0,
            send.0,
            user.0
        )
        .fetch_optional(&self.0.pool)
        .await?;
        Ok(row.map(|row| ItemTimes {
            seen_at: row.seen_at.map(Into::into),
            read_at: row.clicked_at.map(Into::into),
            deleted_at: row.deleted_at.map(Into::into),
        }))
    }

    /// Returns those of the targets that are suppressed now.
    pub async fn suppressed_targets(
        self,
        app: AppId,
        targets: &[(Channel, String)],
    ) -> Result<Vec<SuppressedTarget>, Error> {
        if targets.is_empty() {
            return Ok(Vec::new());
        }
        columns! { (channel, target) in targets =>
            channels = channel.as_str(),
            texts = target.as_str(),
        }
        let rows = sqlx::query!(
            r#"SELECT s.channel, s.target, s.delivery_id, s.code, s.created_at
               FROM unnest($2::text[], $3::text[]) AS asked (channel, target) CROSS JOIN LATERAL (
                 SELECT * FROM suppression s
                 WHERE s.app_id = $1 AND s.channel = asked.channel AND s.target = asked.target
                 UNION
                 SELECT * FROM suppression s
                 WHERE s.app_id = $1 AND mailbox_key(s.channel, s.target) = mailbox_key(asked.channel, asked.target)
               ) AS s"#,
            app.0,
            &channels as &[&str],
            &texts as &[&str]
        )
        .fetch_all(&self.0.pool)
        .await?;
        rows.into_iter()
            .map(|row| {
                let (channel, target) = (row.channel.as_deref(), row.target.as_deref());
                Ok(SuppressedTarget {
                    channel: channel.unwrap_or_default().parse()?,
                    target: masked(target.unwrap_or_default()),
                    delivery: DeliveryId(row.delivery_id.unwrap_or_default()),
                    code: row.code.unwrap_or_default(),
                    since: row.created_at.map_or(Timestamp::from_millis(0), Into::into),
                })
            })
            .collect()
    }

    /// Returns true if a user with this identifier was erased, as long as the erasure is recorded.
    pub async fn was_erased(self, app: AppId, identifier: &str) -> Result<bool, Error> {
        let found = sqlx::query_scalar!(
            r#"SELECT EXISTS (
                 SELECT FROM erased WHERE app_id = $1 AND done_at IS NULL
                   AND digest = sha256(convert_to($1::bigint || E'\n' || $2::text, 'UTF8'))
               ) AS "found!""#,
            app.0,
            identifier
        )
        .fetch_one(&self.0.pool)
        .await?;
        Ok(found)
    }
}
