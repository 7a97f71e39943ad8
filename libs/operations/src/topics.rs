//! Topics and their subscribers.

use std::borrow::Cow;

use domain::profile::Author;
use domain::topic::TopicChannels;
use domain::{Action, AppId, Timestamp, TopicId, UserNumber};
use service_kit::clock;
use store::directory::topic::Topic;
use store::directory::topic::subscription::{
    NewSubscriber, OwnSubscription, SubscribeResult, SubscribedTopic, Subscriber, SubscriptionChange,
};

use crate::audit::author;
use crate::categories::seen_change;
use crate::overview::Count;
use crate::waiting::database;
use crate::{Caller, Conflict, Object, OperationError, Operations, Permission};

/// Largest number of subscribers that is counted.
const MOST_COUNTED: i64 = 10_000;

/// Returns the identifier of the topic that `text` names. Digits are the identifier of a topic or, if there is none, the id of one.
/// Use cases that create a missing topic do not call this function: digits are then always an identifier.
async fn named<'t>(
    operations: &Operations,
    app: AppId,
    text: &'t str,
) -> Result<Cow<'t, str>, OperationError> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let Some(id) = text.parse().ok().filter(|_| is_number) else { return Ok(text.into()) };
    let found = database(operations.store.directory().topic_named(app, text, id)).await?;
    Ok(found.map_or(text.into(), Cow::Owned))
}

/// Creates a topic.
///
/// # Errors
/// Returns [`Conflict::TopicExists`] if the app has a topic with this identifier.
pub async fn create(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    identifier: &str,
    name: &str,
    open: bool,
) -> Result<Topic, OperationError> {
    let actor = author(caller, Action::TopicSet, app)?;
    let creating = operations.store.directory().create_topic(app, identifier, (name, open), actor);
    let created = database(creating).await?;
    created.ok_or(OperationError::Conflict(Conflict::TopicExists))
}

/// Changes the given values of a topic.
///
/// # Errors
/// Returns [`Object::Topic`] if the topic does not exist.
pub async fn change(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    topic: &str,
    name: Option<&str>,
    open: Option<bool>,
) -> Result<Topic, OperationError> {
    caller.may(Permission::ChangeTopics, app)?;
    let topic = named(operations, app, topic).await?;
    let changed = database(operations.store.directory().change_topic(app, &topic, name, open)).await?;
    changed.ok_or(OperationError::NotFound(Object::Topic))
}

/// Creates a topic, or changes the given values of one.
pub async fn put(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    identifier: &str,
    name: Option<&str>,
    open: Option<bool>,
) -> Result<Topic, OperationError> {
    let actor = author(caller, Action::TopicSet, app)?;
    let putting = operations.store.directory().put_topic(app, identifier, (name, open), actor);
    let (topic, _) = database(putting).await?;
    Ok(topic)
}

/// Finds a topic by its id.
///
/// # Errors
/// Returns [`Object::Topic`] if the topic does not exist.
pub async fn find_numbered(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    topic: TopicId,
) -> Result<Topic, OperationError> {
    caller.may(Permission::View, app)?;
    let found = database(operations.store.directory().topic(app, topic)).await?;
    found.ok_or(OperationError::NotFound(Object::Topic))
}

/// Changes the given values of a topic that the caller saw as it was at a time.
///
/// # Errors
/// Returns [`Object::Topic`] if the topic does not exist, and [`Conflict::Changed`] if it was changed since then.
pub async fn change_seen(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    seen: (TopicId, Timestamp),
    name: Option<&str>,
    open: Option<bool>,
) -> Result<Topic, OperationError> {
    let actor = author(caller, Action::TopicSet, app)?;
    let changing = operations.store.directory().change_seen_topic(app, seen, (name, open), actor);
    seen_change(database(changing).await?, Object::Topic)
}

/// Counts the subscribers of topics, in the order of the topics; at most 10,000 of each.
pub async fn count_subscribers(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    topics: &[TopicId],
) -> Result<Vec<Count>, OperationError> {
    caller.may(Permission::View, app)?;
    let counting = operations.store.directory().count_subscribers(app, topics, MOST_COUNTED + 1);
    let count = |number: i64| Count {
        number: usize::try_from(number.min(MOST_COUNTED)).unwrap_or(0),
        more: number > MOST_COUNTED,
    };
    Ok(database(counting).await?.into_iter().map(count).collect())
}

/// Finds a topic.
///
/// # Errors
/// Returns [`Object::Topic`] if the topic does not exist.
pub async fn find(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    identifier: &str,
) -> Result<Topic, OperationError> {
    caller.may(Permission::View, app)?;
    let identifier = named(operations, app, identifier).await?;
    let topic = database(operations.store.directory().find_topic(app, &identifier)).await?;
    topic.ok_or(OperationError::NotFound(Object::Topic))
}

/// Lists at most `limit` topics that were created after the topic `after`. If the caller acts for a user, lists only the topics that
/// are open and those to which the user subscribes, and returns the user's subscription to each.
pub async fn list(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    after: Option<TopicId>,
    limit: i64,
) -> Result<Vec<(Topic, Option<Option<TopicChannels>>)>, OperationError> {
    let directory = operations.store.directory();
    if let Some(own) = caller.reach(Permission::Browse, app)? {
        let visible = directory.list_visible_topics(app, &own.identifier, after, limit);
        let topics = database(visible).await?.into_iter();
        return Ok(topics.map(|OwnSubscription { topic, channels }| (topic, Some(channels))).collect());
    }
    let topics = database(directory.list_topics(app, after, limit)).await?;
    Ok(topics.into_iter().map(|topic| (topic, None)).collect())
}

/// Deletes a topic and its subscriptions.
///
/// # Errors
/// Returns [`Object::Topic`] if the topic does not exist.
pub async fn delete(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    identifier: &str,
) -> Result<(), OperationError> {
    caller.may(Permission::ChangeTopics, app)?;
    let identifier = named(operations, app, identifier).await?;
    delete_identified(operations, caller, app, &identifier).await
}

/// Like [`delete`], but takes no id, so that a repeated deletion never finds another topic by its id.
///
/// # Errors
/// Returns [`Object::Topic`] if the topic does not exist.
pub async fn delete_identified(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    identifier: &str,
) -> Result<(), OperationError> {
    let actor = author(caller, Action::TopicDelete, app)?;
    let is_deleted = database(operations.store.directory().delete_topic(app, identifier, actor)).await?;
    if is_deleted { Ok(()) } else { Err(OperationError::NotFound(Object::Topic)) }
}

/// Subscribes and unsubscribes users, and returns what changed for each of them.
///
/// # Errors
/// Returns [`Object::Topic`] if the topic does not exist.
pub async fn change_subscriptions(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    topic: &str,
    add: &[String],
    remove: &[String],
) -> Result<Vec<(String, SubscriptionChange)>, OperationError> {
    caller.may(Permission::ChangeTopics, app)?;
    let changing = operations.store.directory().change_subscriptions(app, topic, add, remove, clock::now());
    database(changing).await?.ok_or(OperationError::NotFound(Object::Topic))
}

/// Subscribes users to a topic, sets the channels of their subscriptions, and returns what changed for each of them. Missing users are
/// created.
///
/// # Errors
/// Returns [`Object::Topic`] if the topic does not exist.
pub async fn add_subscribers(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    topic: &str,
    users: &[NewSubscriber],
) -> Result<Vec<(String, SubscriptionChange)>, OperationError> {
    caller.may(Permission::ChangeTopics, app)?;
    let topic = named(operations, app, topic).await?;
    let adding = operations.store.directory().subscribe_users(app, &topic, users, clock::now());
    database(adding).await?.ok_or(OperationError::NotFound(Object::Topic))
}

/// Unsubscribes users, and returns what changed for each of them.
///
/// # Errors
/// Returns [`Object::Topic`] if the topic does not exist.
pub async fn remove_subscribers(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    topic: &str,
    users: &[String],
) -> Result<Vec<(String, SubscriptionChange)>, OperationError> {
    caller.may(Permission::ChangeTopics, app)?;
    let topic = named(operations, app, topic).await?;
    let removing = operations.store.directory().change_subscriptions(app, &topic, &[], users, clock::now());
    database(removing).await?.ok_or(OperationError::NotFound(Object::Topic))
}

/// Sets the channels of a user's subscription.
///
/// # Errors
/// Returns [`Object::Topic`] if the topic does not exist, and [`Object::TopicSubscription`] if the user does not subscribe to it.
pub async fn set_channels(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    topic: &str,
    user: &str,
    channels: &TopicChannels,
) -> Result<(), OperationError> {
    caller.may(Permission::ChangeTopics, app)?;
    let topic = find(operations, caller, app, topic).await?;
    let setting = operations.store.directory().set_subscription_channels(app, topic.id, user, channels);
    let is_set = database(setting).await?;
    if is_set { Ok(()) } else { Err(OperationError::NotFound(Object::TopicSubscription)) }
}

/// Lists at most `limit` subscribers of a topic that were created after the user `after`.
///
/// # Errors
/// Returns [`Object::Topic`] if the topic does not exist.
pub async fn subscribers(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    topic: &str,
    after: Option<UserNumber>,
    limit: i64,
) -> Result<Vec<Subscriber>, OperationError> {
    caller.may(Permission::View, app)?;
    let topic = named(operations, app, topic).await?;
    let listing = operations.store.directory().list_subscribers(app, &topic, after, limit);
    database(listing).await?.ok_or(OperationError::NotFound(Object::Topic))
}

/// Lists at most `limit` topics of a user that were created after the topic `after`.
///
/// # Errors
/// Returns [`Object::User`] if the user does not exist.
pub async fn of_user(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    user: &str,
    after: Option<TopicId>,
    limit: i64,
) -> Result<Vec<SubscribedTopic>, OperationError> {
    caller.may(Permission::View, app)?;
    let listing = operations.store.directory().list_topics_of_user(app, user, after, limit);
    database(listing).await?.ok_or(OperationError::NotFound(Object::User))
}

/// Returns a topic, with the subscription of the caller's user to it.
///
/// # Errors
/// If the topic does not exist, a backend gets [`Object::Topic`]. A user gets [`Object::OpenTopic`], also for a topic that is not open and
/// to which the user does not subscribe.
pub async fn own_subscription(
    operations: &Operations,
    caller: &Caller,
    topic: &str,
) -> Result<OwnSubscription, OperationError> {
    let own = caller.own(Permission::OwnSubscriptions)?;
    let topic = named(operations, own.app, topic).await?;
    let finding = operations.store.directory().find_own_subscription(own.app, &own.identifier, &topic);
    let found = database(finding).await?;
    if own.author == Author::App {
        return found.ok_or(OperationError::NotFound(Object::Topic));
    }
    let visible = found.filter(|found| found.topic.open || found.channels.is_some());
    visible.ok_or(OperationError::NotFound(Object::OpenTopic))
}

/// Subscribes the caller's user to an open topic, and sets the channels if they are given. A subscriber may set the channels for every
/// topic. A missing user is created.
///
/// # Errors
/// If the topic does not exist or is not open, a backend gets [`Object::Topic`] or [`Conflict::TopicClosed`]. A user gets
/// [`Object::OpenTopic`] in both cases, so that users cannot find out the names of other topics.
pub async fn subscribe(
    operations: &Operations,
    caller: &Caller,
    topic: &str,
    channels: Option<&TopicChannels>,
) -> Result<(), OperationError> {
    let own = caller.own(Permission::OwnSubscriptions)?;
    let topic = named(operations, own.app, topic).await?;
    let directory = operations.store.directory();
    let subscribing = directory.subscribe_user(own.app, &topic, own.writer(), channels, clock::now());
    let is_user = own.author != Author::App;
    match database(subscribing).await? {
        SubscribeResult::Subscribed => Ok(()),
        SubscribeResult::NoTopic | SubscribeResult::Closed if is_user => {
            Err(OperationError::NotFound(Object::OpenTopic))
        }
        SubscribeResult::NoTopic => Err(OperationError::NotFound(Object::Topic)),
        SubscribeResult::Closed => Err(OperationError::Conflict(Conflict::TopicClosed)),
    }
}

/// Unsubscribes the caller's user from a topic, open or not.
///
/// # Errors
/// Returns [`Object::Topic`] to a backend if the topic does not exist. To a user, an unknown topic is one to which the user does
/// not subscribe.
pub async fn unsubscribe(
    operations: &Operations,
    caller: &Caller,
    topic: &str,
) -> Result<(), OperationError> {
    let own = caller.own(Permission::OwnSubscriptions)?;
    let topic = named(operations, own.app, topic).await?;
    let unsubscribing = operations.store.directory().unsubscribe_user(own.app, &topic, own.writer());
    let is_known = database(unsubscribing).await?;
    if is_known || own.author != Author::App { Ok(()) } else { Err(OperationError::NotFound(Object::Topic)) }
}
