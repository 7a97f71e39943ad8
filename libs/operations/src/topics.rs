//! Topics and their subscribers.

use domain::profile::Author;
use domain::{AppId, TopicId, UserNumber};
use service_kit::clock;
use store::directory::topic::Topic;
use store::directory::topic::subscription::{
    SubscribeResult, SubscribedTopic, Subscriber, SubscriptionChange,
};

use crate::waiting::database;
use crate::{Caller, Conflict, Object, OperationError, Operations, Permission};

/// Creates a topic, or changes the given values of one.
pub async fn put(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    identifier: &str,
    name: Option<&str>,
    open: Option<bool>,
) -> Result<Topic, OperationError> {
    caller.may(Permission::ChangeTopics, app)?;
    let (topic, _) = database(operations.store.directory().put_topic(app, identifier, name, open)).await?;
    Ok(topic)
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
    let topic = database(operations.store.directory().find_topic(app, identifier)).await?;
    topic.ok_or(OperationError::NotFound(Object::Topic))
}

/// Lists at most `limit` topics that were created after the topic `after`. If the caller acts for a user, lists only the topics that
/// are open and those to which the user subscribes, and states for each whether the user subscribes to it.
pub async fn list(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    after: Option<TopicId>,
    limit: i64,
) -> Result<Vec<(Topic, Option<bool>)>, OperationError> {
    let directory = operations.store.directory();
    if let Some(own) = caller.reach(Permission::Browse, app)? {
        let visible = directory.list_visible_topics(app, &own.identifier, after, limit);
        let topics = database(visible).await?.into_iter();
        return Ok(topics.map(|(topic, subscribed)| (topic, Some(subscribed))).collect());
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
    let is_deleted = database(operations.store.directory().delete_topic(app, identifier)).await?;
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
    let listing = operations.store.directory().list_subscribers(app, topic, after, limit);
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

/// Subscribes the caller's user to an open topic. A missing user is created.
///
/// # Errors
/// If the topic does not exist or is not open, a backend gets [`Object::Topic`] or [`Conflict::TopicClosed`]. A user gets
/// [`Object::OpenTopic`] in both cases, so that users cannot find out the names of other topics.
pub async fn subscribe(operations: &Operations, caller: &Caller, topic: &str) -> Result<(), OperationError> {
    let own = caller.own(Permission::OwnSubscriptions)?;
    let directory = operations.store.directory();
    let subscribing = directory.subscribe_user(own.app, topic, own.writer(), clock::now());
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
    let unsubscribing = operations.store.directory().unsubscribe_user(own.app, topic, own.writer());
    let is_known = database(unsubscribing).await?;
    if is_known || own.author != Author::App { Ok(()) } else { Err(OperationError::NotFound(Object::Topic)) }
}
