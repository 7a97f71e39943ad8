use std::collections::{HashMap, HashSet};

use domain::content::Object;
use domain::topic::TopicChannels;
use domain::{AppId, Channel, Timestamp, TopicId, UserNumber};
use sqlx::PgConnection;

use crate::control::quota::{self, Quota};
use crate::database::columns::columns;
use crate::database::instant::instant;
use crate::directory::device::claim_user;
use crate::directory::topic::{Topic, create, lock, share};
use crate::directory::user;
use crate::directory::user::merge::create_missing;
use crate::directory::user::proof::{self, Writer};
use crate::{Directory, Error};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscriptionChange {
    Subscribed,
    AlreadySubscribed,
    Unsubscribed,
    NotSubscribed,
    UnknownUser,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscribeResult {
    /// The user subscribes to the topic, because of this request or of an earlier one.
    Subscribed,
    NoTopic,
    /// The topic is not open, and the user does not subscribe to it.
    Closed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscriber {
    pub number: UserNumber,
    pub identifier: String,
    pub channels: TopicChannels,
    pub subscribed_at: Timestamp,
}

/// A user to subscribe. If the channels are not given, an existing subscription keeps its channels, and a new one has all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSubscriber {
    pub identifier: String,
    pub channels: Option<TopicChannels>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscribedTopic {
    pub id: TopicId,
    pub identifier: String,
    pub name: String,
    pub open: bool,
    pub channels: TopicChannels,
    pub subscribed_at: Timestamp,
}

/// A subscription as its user sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnSubscription {
    pub topic: Topic,
    /// None if the user does not subscribe to the topic.
    pub channels: Option<TopicChannels>,
}

impl Directory<'_> {
    /// Subscribes the users in `add`, and unsubscribes those in `remove`. No user may be named twice. A missing topic is created, but not
    /// open; if `add` is empty, the call returns None instead. Existing subscriptions keep their time, the others get the time `at`.
    /// Returns the results in the order of `add` and then `remove`.
    pub async fn change_subscriptions(
        self,
        app: AppId,
        topic: &str,
        add: &[String],
        remove: &[String],
        at: Timestamp,
    ) -> Result<Option<Vec<(String, SubscriptionChange)>>, Error> {
        let mut transaction = self.0.begin().await?;
        let id = match lock(&mut transaction, app, topic).await? {
            Some(id) => id,
            None if add.is_empty() => return Ok(None),
            None => create(&mut transaction, app, topic).await?,
        };
        let named: Vec<&str> = add.iter().chain(remove).map(String::as_str).collect();
        let users = lock_users(&mut transaction, app, &named).await?;
        let removed = delete(&mut transaction, app, id, &numbers(&users, remove)).await?;
        let added = insert(&mut transaction, app, id, &numbers(&users, add), at).await?;
        let known: Vec<_> = users.values().copied().map(UserNumber).collect();
        proof::end_many(&mut transaction, app, &known).await?;
        transaction.commit().await?;
        let change = |identifier: &String, changed: &HashSet<i64>, yes, no| {
            let change = match users.get(identifier) {
                Some(number) if changed.contains(number) => yes,
                Some(_) => no,
                None => SubscriptionChange::UnknownUser,
            };
            (identifier.clone(), change)
        };
        let subscribed = add.iter().map(|identifier| {
            change(identifier, &added, SubscriptionChange::Subscribed, SubscriptionChange::AlreadySubscribed)
        });
        let unsubscribed = remove.iter().map(|identifier| {
            change(identifier, &removed, SubscriptionChange::Unsubscribed, SubscriptionChange::NotSubscribed)
        });
        Ok(Some(subscribed.chain(unsubscribed).collect()))
    }

    /// Subscribes users to an existing topic, and sets the channels of their subscriptions. No user may be named twice. Missing users are
    /// created. Existing subscriptions keep their time, the others get the time `at`. Returns the results in the order of `users`; None if
    /// the app has no such topic.
    pub async fn subscribe_users(
        self,
        app: AppId,
        topic: &str,
        users: &[NewSubscriber],
        at: Timestamp,
    ) -> Result<Option<Vec<(String, SubscriptionChange)>>, Error> {
        let mut transaction = self.0.begin().await?;
        let Some(topic) = lock(&mut transaction, app, topic).await? else { return Ok(None) };
        let mut named: Vec<&str> = users.iter().map(|user| user.identifier.as_str()).collect();
        // Two calls that create the same users then wait for each other in this order, and never deadlock.
        named.sort_unstable();
        create_missing(&mut transaction, &vec![app.0; named.len()], &named).await?;
        let numbers = lock_users(&mut transaction, app, &named).await?;
        let all: Vec<_> = numbers.values().copied().collect();
        let added = insert(&mut transaction, app, topic, &all, at).await?;
        let given = users.iter().filter_map(|user| Some((user, user.channels.as_ref()?)));
        let choices = given
            .filter_map(|(user, channels)| Some((UserNumber(*numbers.get(&user.identifier)?), channels)));
        let choices: Vec<_> = choices.collect();
        set_channels(&mut transaction, app, topic, &choices).await?;
        let known: Vec<_> = all.into_iter().map(UserNumber).collect();
        proof::end_many(&mut transaction, app, &known).await?;
        transaction.commit().await?;
        let change = |user: &NewSubscriber| match numbers.get(&user.identifier) {
            Some(number) if added.contains(number) => SubscriptionChange::Subscribed,
            Some(_) => SubscriptionChange::AlreadySubscribed,
            None => SubscriptionChange::UnknownUser,
        };
        Ok(Some(users.iter().map(|user| (user.identifier.clone(), change(user))).collect()))
    }

    /// Sets the channels of a subscription. Returns false if the user does not subscribe to the topic.
    pub async fn set_subscription_channels(
        self,
        app: AppId,
        topic: TopicId,
        user: &str,
        channels: &TopicChannels,
    ) -> Result<bool, Error> {
        let mut transaction = self.0.begin().await?;
        let Some(user) = user::lock(&mut transaction, app, user).await? else { return Ok(false) };
        let changed = set_channels(&mut transaction, app, topic, &[(user.number, channels)]).await?;
        proof::end_many(&mut transaction, app, &[user.number]).await?;
        transaction.commit().await?;
        Ok(changed > 0)
    }

    /// Subscribes a user to an open topic, at the user's own request, and sets the channels if they are given; a subscriber may do the
    /// latter for every topic. Creates the user if necessary. An existing subscription keeps its time; a new one gets the time `at`.
    pub async fn subscribe_user(
        self,
        app: AppId,
        topic: &str,
        writer: impl Into<Writer<'_>>,
        channels: Option<&TopicChannels>,
        at: Timestamp,
    ) -> Result<SubscribeResult, Error> {
        let writer = writer.into();
        let _turn = self.0.writers.turn(app, writer.user).await;
        let mut transaction = self.0.begin().await?;
        let Some((topic, is_open)) = share(&mut transaction, app, topic).await? else {
            return Ok(SubscribeResult::NoTopic);
        };
        if !is_open && !subscribes(&mut transaction, app, topic, writer.user).await? {
            return Ok(SubscribeResult::Closed);
        }
        if !is_open && channels.is_none() {
            return Ok(SubscribeResult::Subscribed);
        }
        let user = claim_user(&mut transaction, app, writer, &Object::new()).await?;
        if is_open {
            insert(&mut transaction, app, topic, &[user.0], at).await?;
        }
        if let Some(channels) = channels {
            set_channels(&mut transaction, app, topic, &[(user, channels)]).await?;
        }
        transaction.commit().await?;
        Ok(SubscribeResult::Subscribed)
    }

    /// Unsubscribes a user from a topic, open or not, at the user's own request. Returns false if the app has no such topic.
    pub async fn unsubscribe_user(
        self,
        app: AppId,
        topic: &str,
        writer: impl Into<Writer<'_>>,
    ) -> Result<bool, Error> {
        let writer = writer.into();
        let Some(topic) = self.topic_id(app, topic).await? else { return Ok(false) };
        let mut transaction = self.0.begin().await?;
        let Some(user) = user::lock(&mut transaction, app, writer.user).await? else { return Ok(true) };
        delete(&mut transaction, app, topic, &[user.number.0]).await?;
        if writer.author.has_proof() {
            proof::end_many(&mut transaction, app, &[user.number]).await?;
        }
        transaction.commit().await?;
        Ok(true)
    }

    /// Lists subscribers in the order of their numbers; None if the app has no such topic.
    pub async fn list_subscribers(
        self,
        app: AppId,
        topic: &str,
        after: Option<UserNumber>,
        limit: i64,
    ) -> Result<Option<Vec<Subscriber>>, Error> {
        let Some(topic) = self.topic_id(app, topic).await? else { return Ok(None) };
        let rows = sqlx::query!(
            "SELECT u.number, u.identifier, s.channels, s.subscribed_at FROM (
               SELECT user_number, channels, subscribed_at FROM topic_subscription
               WHERE app_id = $1 AND topic_id = $2 AND user_number > $3 ORDER BY user_number LIMIT $4
             ) AS s JOIN app_user u ON u.app_id = $1 AND u.number = s.user_number ORDER BY u.number",
            app.0,
            topic.0,
            after.map_or(0, |after| after.0),
            limit
        )
        .fetch_all(&self.0.pool)
        .await?;
        let subscribers = rows.into_iter().map(|row| Subscriber {
            number: UserNumber(row.number),
            identifier: row.identifier,
            channels: row.channels.map(|names| parse(&names)),
            subscribed_at: row.subscribed_at.into(),
        });
        Ok(Some(subscribers.collect()))
    }

    /// Lists topics in order of creation; None if the app has no such user.
    pub async fn list_topics_of_user(
        self,
        app: AppId,
        identifier: &str,
        after: Option<TopicId>,
        limit: i64,
    ) -> Result<Option<Vec<SubscribedTopic>>, Error> {
        let user = sqlx::query_scalar!(
            "SELECT number FROM app_user WHERE app_id = $1 AND identifier = $2",
            app.0,
            identifier
        )
        .fetch_optional(&self.0.pool)
        .await?;
        let Some(user) = user else { return Ok(None) };
        let rows = sqlx::query!(
            "SELECT t.id, t.identifier, t.name, t.open, s.channels, s.subscribed_at
             FROM topic_subscription s JOIN topic t ON t.app_id = $1 AND t.id = s.topic_id
             WHERE s.app_id = $1 AND s.user_number = $2 AND s.topic_id > $3 ORDER BY s.topic_id LIMIT $4",
            app.0,
            user,
            after.map_or(0, |after| after.0),
            limit
        )
        .fetch_all(&self.0.pool)
        .await?;
        let topics = rows.into_iter().map(|row| SubscribedTopic {
            id: TopicId(row.id),
            identifier: row.identifier,
            name: row.name,
            open: row.open,
            channels: row.channels.map(|names| parse(&names)),
            subscribed_at: row.subscribed_at.into(),
        });
        Ok(Some(topics.collect()))
    }

    /// Removes up to `limit` subscriptions of a deleted topic, and the record of the topic if none are left. Returns 0 if there is nothing
    /// to remove now. Several processes may call this function at once.
    pub async fn remove_deleted_subscriptions(self, limit: u32) -> Result<u64, Error> {
        let mut transaction = self.0.begin().await?;
        let topic = sqlx::query!(
            "SELECT app_id, topic_id FROM deleted_topic ORDER BY app_id, topic_id LIMIT 1 FOR UPDATE SKIP LOCKED"
        )
        .fetch_optional(&mut *transaction)
        .await?;
        let Some(topic) = topic else { return Ok(0) };
        let subscriptions = sqlx::query!(
            "DELETE FROM topic_subscription WHERE app_id = $1 AND topic_id = $2 AND user_number = ANY(ARRAY(
               SELECT user_number FROM topic_subscription WHERE app_id = $1 AND topic_id = $2
               ORDER BY user_number LIMIT $3 FOR UPDATE SKIP LOCKED
             ))",
            topic.app_id,
            topic.topic_id,
            i64::from(limit)
        )
        .execute(&mut *transaction)
        .await?;
        let topics = sqlx::query!(
            "DELETE FROM deleted_topic WHERE app_id = $1 AND topic_id = $2
               AND NOT EXISTS (SELECT FROM topic_subscription WHERE app_id = $1 AND topic_id = $2)",
            topic.app_id,
            topic.topic_id
        )
        .execute(&mut *transaction)
        .await?;
        transaction.commit().await?;
        Ok(subscriptions.rows_affected() + topics.rows_affected())
    }
}

async fn subscribes(
    connection: &mut PgConnection,
    app: AppId,
    topic: TopicId,
    identifier: &str,
) -> Result<bool, Error> {
    let found = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM topic_subscription WHERE app_id = $1 AND topic_id = $2
           AND user_number = (SELECT number FROM app_user WHERE app_id = $1 AND identifier = $3)) AS "subscribes!""#,
        app.0,
        topic.0,
        identifier
    )
    .fetch_one(connection)
    .await?;
    Ok(found)
}

/// The users cannot be erased until the transaction ends.
async fn lock_users(
    connection: &mut PgConnection,
    app: AppId,
    identifiers: &[&str],
) -> Result<HashMap<String, i64>, Error> {
    let rows = sqlx::query!(
        "SELECT number, identifier FROM app_user WHERE app_id = $1 AND identifier = ANY($2)
         ORDER BY number FOR KEY SHARE",
        app.0,
        identifiers as &[&str]
    )
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(|row| (row.identifier, row.number)).collect())
}

fn numbers(users: &HashMap<String, i64>, identifiers: &[String]) -> Vec<i64> {
    identifiers.iter().filter_map(|identifier| users.get(identifier).copied()).collect()
}

/// Returns the number of changed subscriptions: 0 if none of the users subscribes to the topic.
async fn set_channels(
    connection: &mut PgConnection,
    app: AppId,
    topic: TopicId,
    choices: &[(UserNumber, &TopicChannels)],
) -> Result<u64, Error> {
    if choices.is_empty() {
        return Ok(0);
    }
    let names = |channels: &TopicChannels| {
        let names = channels.as_ref()?.iter().map(|channel| channel.as_str());
        Some(names.collect::<Vec<_>>().join(","))
    };
    columns! { (user, channels) in choices => users = user.0, limits = names(channels) }
    let updated = sqlx::query!(
        "UPDATE topic_subscription s SET channels = string_to_array(new.channels, ',')
         FROM unnest($3::bigint[], $4::text[]) AS new (user_number, channels)
         WHERE s.app_id = $1 AND s.topic_id = $2 AND s.user_number = new.user_number",
        app.0,
        topic.0,
        &users,
        &limits as &[Option<String>]
    )
    .execute(connection)
    .await?;
    Ok(updated.rows_affected())
}

/// Leaves out channels that only a newer release knows.
pub(crate) fn parse(names: &[String]) -> Vec<Channel> {
    let known: Vec<Channel> = names.iter().filter_map(|name| name.parse().ok()).collect();
    Channel::ALL.iter().copied().filter(|channel| known.contains(channel)).collect()
}

/// Checks the quota. Returns the users who did not subscribe to the topic before.
async fn insert(
    connection: &mut PgConnection,
    app: AppId,
    topic: TopicId,
    users: &[i64],
    at: Timestamp,
) -> Result<HashSet<i64>, Error> {
    if users.is_empty() {
        return Ok(HashSet::new());
    }
    let added = sqlx::query_scalar!(
        "INSERT INTO topic_subscription (app_id, topic_id, user_number, subscribed_at)
         SELECT $1::bigint, $2::bigint, number, $4::timestamptz FROM unnest($3::bigint[]) AS named (number) ORDER BY number
         ON CONFLICT (app_id, topic_id, user_number) DO NOTHING RETURNING user_number",
        app.0,
        topic.0,
        users,
        instant(at)
    )
    .fetch_all(&mut *connection)
    .await?;
    if !added.is_empty() {
        quota::check(connection, app, Quota::Subscriptions).await?;
    }
    Ok(added.into_iter().collect())
}

/// Returns the users who subscribed to the topic before.
async fn delete(
    connection: &mut PgConnection,
    app: AppId,
    topic: TopicId,
    users: &[i64],
) -> Result<HashSet<i64>, Error> {
    if users.is_empty() {
        return Ok(HashSet::new());
    }
    let removed = sqlx::query_scalar!(
        "DELETE FROM topic_subscription WHERE app_id = $1 AND topic_id = $2 AND user_number = ANY($3)
         RETURNING user_number",
        app.0,
        topic.0,
        users
    )
    .fetch_all(connection)
    .await?;
    Ok(removed.into_iter().collect())
}
