//! A transaction that changes subscriptions locks the topic first, then the users in the order of their numbers, then the subscriptions.
//! While it holds the lock on the topic, the topic cannot be deleted.

pub mod subscription;

use domain::{Action, Actor, AppId, Timestamp, TopicId};
use serde_json::{Value, json};
use sqlx::PgConnection;

use crate::control::quota::{self, Quota};
use crate::database::audit::AuditEntry;
use crate::directory::category::SeenChange;
use crate::directory::topic::subscription::OwnSubscription;
use crate::{Directory, Error};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    pub id: TopicId,
    pub identifier: String,
    pub name: String,
    /// True if users may subscribe themselves.
    pub open: bool,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl Directory<'_> {
    /// Without a `name`, the name of a new topic is its identifier. An actor writes a row of the audit log. Returns the topic, and true if this
    /// call created it.
    pub async fn put_topic(
        self,
        app: AppId,
        identifier: &str,
        (name, open): (Option<&str>, Option<bool>),
        actor: Option<&Actor>,
    ) -> Result<(Topic, bool), Error> {
        let mut transaction = self.0.begin().await?;
        let before = match actor {
            Some(_) => find(&mut transaction, app, None, Some(identifier)).await?,
            None => None,
        };
        let row = sqlx::query_as!(
            FlaggedRow,
            r#"INSERT INTO topic AS known (app_id, identifier, name, open)
             VALUES ($1, $2::text, coalesce($3::text, $2::text), coalesce($4::boolean, false))
             ON CONFLICT (app_id, identifier) DO UPDATE SET
               name = coalesce($3::text, known.name), open = coalesce($4::boolean, known.open),
               updated_at = CASE WHEN $3::text <> known.name OR $4::boolean <> known.open THEN now() ELSE known.updated_at END
             RETURNING id, identifier, name, open, created_at, updated_at, xmax = 0 AS "flag!""#,
            app.0,
            identifier,
            name,
            open
        )
        .fetch_one(&mut *transaction)
        .await?;
        let (topic, is_new) = row.split();
        if is_new {
            quota::check(&mut transaction, app, Quota::Topics).await?;
        }
        write_row(&mut transaction, app, actor, (before.as_ref(), Some(&topic))).await?;
        transaction.commit().await?;
        Ok((topic, is_new))
    }

    /// Returns None if the identifier is taken.
    pub async fn create_topic(
        self,
        app: AppId,
        identifier: &str,
        (name, open): (&str, bool),
        actor: Option<&Actor>,
    ) -> Result<Option<Topic>, Error> {
        let mut transaction = self.0.begin().await?;
        let topic = sqlx::query_as!(
            Topic,
            "INSERT INTO topic (app_id, identifier, name, open) VALUES ($1, $2, $3, $4)
             ON CONFLICT (app_id, identifier) DO NOTHING
             RETURNING id, identifier, name, open, created_at, updated_at",
            app.0,
            identifier,
            name,
            open
        )
        .fetch_optional(&mut *transaction)
        .await?;
        if let Some(topic) = &topic {
            quota::check(&mut transaction, app, Quota::Topics).await?;
            write_row(&mut transaction, app, actor, (None, Some(topic))).await?;
        }
        transaction.commit().await?;
        Ok(topic)
    }

    /// Changes the given values of a topic. Returns None if it does not exist.
    pub async fn change_topic(
        self,
        app: AppId,
        identifier: &str,
        name: Option<&str>,
        open: Option<bool>,
    ) -> Result<Option<Topic>, Error> {
        let topic = sqlx::query_as!(
            Topic,
            "UPDATE topic SET name = coalesce($3, name), open = coalesce($4, open),
               updated_at = CASE WHEN $3 <> name OR $4 <> open THEN now() ELSE updated_at END
             WHERE app_id = $1 AND identifier = $2
             RETURNING id, identifier, name, open, created_at, updated_at",
            app.0,
            identifier,
            name,
            open
        )
        .fetch_optional(&self.0.pool)
        .await?;
        Ok(topic)
    }

    /// Changes the given values of a topic that the caller saw as it was at a time. An actor writes a row of the audit log.
    pub async fn change_seen_topic(
        self,
        app: AppId,
        (id, seen): (TopicId, Timestamp),
        (name, open): (Option<&str>, Option<bool>),
        actor: Option<&Actor>,
    ) -> Result<SeenChange<Topic>, Error> {
        let mut transaction = self.0.begin().await?;
        let before = match find(&mut transaction, app, Some(id), None).await? {
            Some(before) if before.updated_at == seen => before,
            Some(_) => return Ok(SeenChange::Overtaken),
            None => return Ok(SeenChange::Unknown),
        };
        let changed = sqlx::query_as!(
            Topic,
            "UPDATE topic SET name = coalesce($3, name), open = coalesce($4, open), updated_at = now()
             WHERE app_id = $1 AND id = $2 RETURNING id, identifier, name, open, created_at, updated_at",
            app.0,
            id.0,
            name,
            open
        )
        .fetch_one(&mut *transaction)
        .await?;
        write_row(&mut transaction, app, actor, (Some(&before), Some(&changed))).await?;
        transaction.commit().await?;
        Ok(SeenChange::Changed(changed))
    }

    pub async fn topic(self, app: AppId, id: TopicId) -> Result<Option<Topic>, Error> {
        let topic = sqlx::query_as!(
            Topic,
            "SELECT id, identifier, name, open, created_at, updated_at FROM topic WHERE app_id = $1 AND id = $2",
            app.0,
            id.0
        )
        .fetch_optional(&self.0.pool)
        .await?;
        Ok(topic)
    }

    /// Counts the subscribers of topics, up to a maximum for each, in the order of the topics.
    pub async fn count_subscribers(
        self,
        app: AppId,
        topics: &[TopicId],
        most: i64,
    ) -> Result<Vec<i64>, Error> {
        let counts = sqlx::query_scalar!(
            r#"SELECT (SELECT count(*) FROM (
                 SELECT FROM topic_subscription s WHERE s.app_id = $1 AND s.topic_id = named.id LIMIT $3
               ) AS counted) AS "count!"
             FROM unnest($2::bigint[]) WITH ORDINALITY AS named (id, place) ORDER BY place"#,
            app.0,
            &topics.iter().map(|topic| topic.0).collect::<Vec<_>>(),
            most
        )
        .fetch_all(&self.0.pool)
        .await?;
        Ok(counts)
    }

    /// Returns the identifier of the topic that a text names: its identifier or else its id.
    pub async fn topic_named(self, app: AppId, text: &str, id: TopicId) -> Result<Option<String>, Error> {
        let identifier = sqlx::query_scalar!(
            "SELECT coalesce((SELECT identifier FROM topic WHERE app_id = $1 AND identifier = $2),
               (SELECT identifier FROM topic WHERE app_id = $1 AND id = $3))",
            app.0,
            text,
            id.0
        )
        .fetch_one(&self.0.pool)
        .await?;
        Ok(identifier)
    }

    pub async fn find_topic(self, app: AppId, identifier: &str) -> Result<Option<Topic>, Error> {
        let topic = sqlx::query_as!(
            Topic,
            "SELECT id, identifier, name, open, created_at, updated_at FROM topic
             WHERE app_id = $1 AND identifier = $2",
            app.0,
            identifier
        )
        .fetch_optional(&self.0.pool)
        .await?;
        Ok(topic)
    }

    pub async fn unknown_topics(self, app: AppId, identifiers: &[String]) -> Result<Vec<String>, Error> {
        let unknown = sqlx::query_scalar!(
            r#"SELECT identifier AS "identifier!" FROM unnest($2::text[]) WITH ORDINALITY AS named (identifier, place)
               WHERE NOT EXISTS (SELECT FROM topic t WHERE t.app_id = $1 AND t.identifier = named.identifier)
               ORDER BY place"#,
            app.0,
            identifiers
        )
        .fetch_all(&self.0.pool)
        .await?;
        Ok(unknown)
    }

    /// In order of creation.
    pub async fn list_topics(
        self,
        app: AppId,
        after: Option<TopicId>,
        limit: i64,
    ) -> Result<Vec<Topic>, Error> {
        let topics = sqlx::query_as!(
            Topic,
            "SELECT id, identifier, name, open, created_at, updated_at FROM topic
             WHERE app_id = $1 AND id > $2 ORDER BY id LIMIT $3",
            app.0,
            after.map_or(0, |after| after.0),
            limit
        )
        .fetch_all(&self.0.pool)
        .await?;
        Ok(topics)
    }

    /// Lists the open topics and those to which the user subscribes, in order of creation. The user may be unknown.
    pub async fn list_visible_topics(
        self,
        app: AppId,
        user: &str,
        after: Option<TopicId>,
        limit: i64,
    ) -> Result<Vec<OwnSubscription>, Error> {
        let rows = sqlx::query_as!(
            OwnRow,
            r#"SELECT t.id, t.identifier, t.name, t.open, t.created_at, t.updated_at,
               s.user_number IS NOT NULL AS "subscribes!", s.channels
             FROM topic t LEFT JOIN topic_subscription s ON s.app_id = $1 AND s.topic_id = t.id
               AND s.user_number = (SELECT number FROM app_user WHERE app_id = $1 AND identifier = $2)
             WHERE t.app_id = $1 AND t.id > $3 AND (t.open OR s.user_number IS NOT NULL) ORDER BY t.id LIMIT $4"#,
            app.0,
            user,
            after.map_or(0, |after| after.0),
            limit
        )
        .fetch_all(&self.0.pool)
        .await?;
        Ok(rows.into_iter().map(OwnRow::into_subscription).collect())
    }

    /// Returns a topic and the user's subscription to it; None if there is no such topic. The user may be unknown.
    pub async fn find_own_subscription(
        self,
        app: AppId,
        user: &str,
        topic: &str,
    ) -> Result<Option<OwnSubscription>, Error> {
        let row = sqlx::query_as!(
            OwnRow,
            r#"SELECT t.id, t.identifier, t.name, t.open, t.created_at, t.updated_at,
               s.user_number IS NOT NULL AS "subscribes!", s.channels
             FROM topic t LEFT JOIN topic_subscription s ON s.app_id = $1 AND s.topic_id = t.id
               AND s.user_number = (SELECT number FROM app_user WHERE app_id = $1 AND identifier = $2)
             WHERE t.app_id = $1 AND t.identifier = $3"#,
            app.0,
            user,
            topic
        )
        .fetch_optional(&self.0.pool)
        .await?;
        Ok(row.map(OwnRow::into_subscription))
    }

    /// Deletes a topic. [`Directory::remove_deleted_subscriptions`] removes its subscriptions later; until then they count towards the
    /// quota. A topic that is created again with this identifier has no subscribers. An actor writes a row of the audit log.
    pub async fn delete_topic(
        self,
        app: AppId,
        identifier: &str,
        actor: Option<&Actor>,
    ) -> Result<bool, Error> {
        let mut transaction = self.0.begin().await?;
        let before = match actor {
            Some(_) => find(&mut transaction, app, None, Some(identifier)).await?,
            None => None,
        };
        let deleted = sqlx::query!(
            "WITH gone AS (DELETE FROM topic WHERE app_id = $1 AND identifier = $2 RETURNING app_id, id)
             INSERT INTO deleted_topic (app_id, topic_id) SELECT app_id, id FROM gone",
            app.0,
            identifier
        )
        .execute(&mut *transaction)
        .await?;
        write_row(&mut transaction, app, actor, (before.as_ref(), None)).await?;
        transaction.commit().await?;
        Ok(deleted.rows_affected() > 0)
    }

    async fn topic_id(self, app: AppId, identifier: &str) -> Result<Option<TopicId>, Error> {
        let id = sqlx::query_scalar!(
            "SELECT id FROM topic WHERE app_id = $1 AND identifier = $2",
            app.0,
            identifier
        )
        .fetch_optional(&self.0.pool)
        .await?;
        Ok(id.map(TopicId))
    }
}

/// Finds a topic by its id or identifier, and locks it until the transaction ends.
async fn find(
    connection: &mut PgConnection,
    app: AppId,
    id: Option<TopicId>,
    identifier: Option<&str>,
) -> Result<Option<Topic>, Error> {
    let topic = sqlx::query_as!(
        Topic,
        "SELECT id, identifier, name, open, created_at, updated_at FROM topic
         WHERE app_id = $1 AND (id = $2 OR identifier = $3) FOR NO KEY UPDATE",
        app.0,
        id.map(|id| id.0),
        identifier
    )
    .fetch_optional(connection)
    .await?;
    Ok(topic)
}

async fn write_row(
    connection: &mut PgConnection,
    app: AppId,
    actor: Option<&Actor>,
    (before, after): (Option<&Topic>, Option<&Topic>),
) -> Result<(), Error> {
    let (Some(actor), Some(topic)) = (actor, after.or(before)) else { return Ok(()) };
    let action = if after.is_some() { Action::TopicSet } else { Action::TopicDelete };
    let values = |topic: &Topic| -> Value { json!({"name": topic.name, "open": topic.open}) };
    let entry = AuditEntry::new(app, actor, action, &topic.identifier);
    entry.changed(before.map(values), after.map(values)).write(connection).await
}

/// Locks a topic until the transaction ends. Other transactions that call this function wait; transactions that only [`share`] the topic do
/// not.
async fn lock(connection: &mut PgConnection, app: AppId, identifier: &str) -> Result<Option<TopicId>, Error> {
    let id = sqlx::query_scalar!(
        "SELECT id FROM topic WHERE app_id = $1 AND identifier = $2 FOR NO KEY UPDATE",
        app.0,
        identifier
    )
    .fetch_optional(connection)
    .await?;
    Ok(id.map(TopicId))
}

/// Prevents the deletion of a topic until the transaction ends. Returns the topic's id, and true if it is open.
async fn share(
    connection: &mut PgConnection,
    app: AppId,
    identifier: &str,
) -> Result<Option<(TopicId, bool)>, Error> {
    let row = sqlx::query!(
        "SELECT id, open FROM topic WHERE app_id = $1 AND identifier = $2 FOR KEY SHARE",
        app.0,
        identifier
    )
    .fetch_optional(connection)
    .await?;
    Ok(row.map(|row| (TopicId(row.id), row.open)))
}

/// If another transaction has just created the topic, this function locks that topic, as [`lock`] does.
async fn create(connection: &mut PgConnection, app: AppId, identifier: &str) -> Result<TopicId, Error> {
    let row = sqlx::query!(
        r#"INSERT INTO topic AS known (app_id, identifier, name) VALUES ($1, $2, $2)
         ON CONFLICT (app_id, identifier) DO UPDATE SET name = known.name
         RETURNING id, xmax = 0 AS "created!""#,
        app.0,
        identifier
    )
    .fetch_one(&mut *connection)
    .await?;
    if row.created {
        quota::check(connection, app, Quota::Topics).await?;
    }
    Ok(TopicId(row.id))
}

struct FlaggedRow {
    id: TopicId,
    identifier: String,
    name: String,
    open: bool,
    created_at: Timestamp,
    updated_at: Timestamp,
    flag: bool,
}

impl FlaggedRow {
    fn split(self) -> (Topic, bool) {
        let FlaggedRow { id, identifier, name, open, created_at, updated_at, flag } = self;
        (Topic { id, identifier, name, open, created_at, updated_at }, flag)
    }
}

struct OwnRow {
    id: TopicId,
    identifier: String,
    name: String,
    open: bool,
    created_at: Timestamp,
    updated_at: Timestamp,
    subscribes: bool,
    channels: Option<Vec<String>>,
}

impl OwnRow {
    fn into_subscription(self) -> OwnSubscription {
        let OwnRow { id, identifier, name, open, created_at, updated_at, subscribes, channels } = self;
        let channels = channels.as_deref().map(subscription::parse);
        let topic = Topic { id, identifier, name, open, created_at, updated_at };
        OwnSubscription { topic, channels: subscribes.then_some(channels) }
    }
}
