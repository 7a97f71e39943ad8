//! Topics and their subscribers.

use domain::{AppId, TopicId, UserNumber};
use service_kit::clock;
use store::directory::topic::Topic;
use store::directory::topic::subscription::{SubscribedTopic, Subscriber, SubscriptionChange};

use crate::waiting::database;
use crate::{Caller, Object, OperationError, Operations, Permission};

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
