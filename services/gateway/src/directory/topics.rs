//! `/v3/topics`: the topics of an app.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::web::Data;
use domain::body::kind::{As, Filled, Flag, Text};
use domain::content::Object;
use domain::fields::MAX_IDENTIFIER;
use domain::topic::{TopicChannels, check_topic_identifier};
use domain::{Channel, Timestamp, TopicId};
use operations::topics;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde_json::Value;
use store::directory::topic::Topic;
use utoipa::ToSchema;
use web::body::{Body, read_members};
use web::cursor;
use web::failure::{Failure, valid_or_problems};
use web::handling::Handling;
use web::path_id::PathId;
use web::query::Query;
use web::status_body::{StatusBody, status_body};

use crate::access::caller::{AppCaller, Caller};
use crate::gateway::Gateway;
use crate::openapi::described;
use crate::openapi::vocabulary::{self, Cursor, Id, Time, TopicIdentifier};

/// Maximum number of topics in an answer; also the default limit.
const MOST_TOPICS: i64 = 1_000;

domain::body! {
    /// Values of a topic. A value that is not given stays as it is.
    pub(crate) struct TopicValues {
        /// Display name, shown to users. Default for a new topic: its identifier.
        optional name: Filled<MAX_IDENTIFIER>,
        /// True if users may subscribe themselves. Default for a new topic: false.
        optional is_open as "open": Flag,
    }
    example {"name": "News", "open": true}
}

domain::body! {
    /// A topic to create.
    pub(crate) struct NewTopic {
        /// Unique within the app. Digits alone are allowed, but a path with digits then means this topic, not the one with that id.
        required identifier: As<domain::body::kind::TopicIdentifier, Text<MAX_IDENTIFIER>>,
        /// Display name, shown to users.
        required name: Filled<MAX_IDENTIFIER>,
        /// True if users may subscribe themselves. Default: false.
        optional is_open as "open": Flag,
    }
    example {"identifier": "release-news", "name": "Release News"}
}

/// A topic: a named list of users to which the app can send.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Topic, example = json!({
    "id": 12, "identifier": "news", "name": "News", "open": true, "subscribed": null, "channels": null,
    "createdAt": "2027-01-31T09:00:00.000Z", "updatedAt": "2027-01-31T09:00:00.000Z",
}))]
struct TopicBody<'a> {
    #[schema(value_type = Id)]
    id: TopicId,
    #[schema(value_type = TopicIdentifier)]
    identifier: &'a str,
    name: &'a str,
    /// True if users may subscribe themselves.
    open: bool,
    /// True if the user subscribes to the topic. Null unless the call lists topics for a user.
    subscribed: Option<bool>,
    /// The channels on which the topic may reach the user. Null unless the call lists topics for a user who subscribes to the topic.
    #[schema(value_type = Option<Vec<vocabulary::Channel>>)]
    channels: Option<&'a [Channel]>,
    #[schema(value_type = Time)]
    created_at: Timestamp,
    #[schema(value_type = Time)]
    updated_at: Timestamp,
}

/// Lists the topics, in order of creation.
///
/// A call for a user lists only the topics that are open, and those to which the user subscribes. The answer has at most 1,000
/// topics. If more exist, the header `Link` leads to the next page (`rel="next"`, RFC 8288).
#[utoipa::path(
    get,
    path = "/v3/topics",
    operation_id = "listTopics",
    tag = "topics",
    security(("either" = [])),
    params(
        ("limit" = Option<i64>, Query, description = "Maximum number of topics; 1000 by default.", minimum = 1, maximum = 1000),
        ("cursor" = inline(Option<Cursor>), Query, description = "The cursor in the `Link` of an earlier answer."),
    ),
    responses((status = 200, description = "The topics.", body = Vec<TopicBody>)),
)]
pub(crate) async fn list(
    caller: Caller,
    gateway: Data<Gateway>,
    query: Query,
) -> Result<HttpResponse, Failure> {
    let mut problems = Vec::new();
    let limit = query.number("limit", 1..=MOST_TOPICS, &mut problems).unwrap_or(MOST_TOPICS);
    let after = cursor::read(&query, |text| text.parse().ok(), &mut problems);
    let named_user = if caller.by_app { query.text("userIdentifier", &mut problems) } else { None };
    query.finish(&mut problems);
    valid_or_problems(Some(()), problems)?;
    // Read one topic more than the page shows, to find out if there is a next page.
    let topics = topics::list(&gateway.operations, &caller.caller, caller.app, after, limit + 1).await?;
    // The next page is for the same user.
    let path = match named_user {
        Some(user) => format!("/v3/topics?userIdentifier={}", utf8_percent_encode(&user, NON_ALPHANUMERIC)),
        None => "/v3/topics".to_owned(),
    };
    Ok(cursor::linked_page(
        &path,
        limit,
        &topics,
        |(topic, _)| topic.id,
        |(topic, subscription)| present(topic, subscription.as_ref()),
    ))
}

/// Creates a topic. Its identifier must be free.
#[utoipa::path(
    post,
    path = "/v3/topics",
    operation_id = "createTopic",
    tag = "topics",
    security(("app" = [])),
    request_body = described::NewTopic,
    responses(
        (status = 200, description = "The new topic.", body = TopicBody),
        (status = 403, description = "The app has reached its quota of topics (`quota_reached`), or is disabled."),
        (status = 409, description = "A topic with this identifier already exists (`topic_exists`)."),
    ),
)]
pub(crate) async fn create(
    caller: AppCaller,
    gateway: Data<Gateway>,
    handling: Handling,
    body: Body,
) -> Result<HttpResponse, Failure> {
    let body = body.json().await?;
    let new = read_members(body, handling.strict, |new: &mut NewTopic, problems| {
        let identifier = new.identifier(problems);
        let identifier = identifier.and_then(|text| check_topic_identifier("identifier", text, problems));
        let name = new.name(problems);
        let open = new.is_open(problems).unwrap_or(false);
        Some((identifier?, name?, open))
    });
    let (identifier, name, open) = new?;
    let creating = topics::create(&gateway.operations, &caller.backend, caller.app, &identifier, &name, open);
    Ok(HttpResponse::Ok().json(present(&creating.await?, None)))
}

/// Changes the given values of a topic.
#[utoipa::path(
    patch,
    path = "/v3/topics/{topic}",
    operation_id = "changeTopic",
    tag = "topics",
    security(("app" = [])),
    params(("topic" = TopicIdentifier, Path, description = "The topic's identifier, or its id.")),
    request_body = Option<described::TopicValues>,
    responses((status = 200, description = "The topic.", body = TopicBody)),
)]
pub(crate) async fn change(
    caller: AppCaller,
    gateway: Data<Gateway>,
    id: PathId,
    handling: Handling,
    body: Body,
) -> Result<HttpResponse, Failure> {
    let body = body.optional_json().await?;
    let topic = id.topic()?;
    let (name, open) = read_values(body, handling.strict)?;
    let changing =
        topics::change(&gateway.operations, &caller.backend, caller.app, &topic, name.as_deref(), open);
    Ok(HttpResponse::Ok().json(present(&changing.await?, None)))
}

/// Creates a topic, or changes the given values of an existing one.
#[utoipa::path(
    put,
    path = "/v3/topics/{topic}",
    operation_id = "putTopic",
    tag = "topics",
    security(("app" = [])),
    params(("topic" = TopicIdentifier, Path, description = "The topic's identifier.")),
    request_body = Option<described::TopicValues>,
    responses(
        (status = 200, description = "The topic.", body = TopicBody),
        (status = 403, description = "The app has reached its quota of topics (`quota_reached`), or is disabled."),
    ),
)]
pub(crate) async fn put(
    caller: AppCaller,
    gateway: Data<Gateway>,
    id: PathId,
    handling: Handling,
    body: Body,
) -> Result<HttpResponse, Failure> {
    let body = body.optional_json().await?;
    let identifier = id.topic()?;
    let (name, open) = read_values(body, handling.strict)?;
    let putting =
        topics::put(&gateway.operations, &caller.backend, caller.app, &identifier, name.as_deref(), open);
    let topic = putting.await?;
    Ok(HttpResponse::Ok().json(present(&topic, None)))
}

/// Gets a topic.
#[utoipa::path(
    get,
    path = "/v3/topics/{topic}",
    operation_id = "getTopic",
    tag = "topics",
    security(("app" = [])),
    params(("topic" = TopicIdentifier, Path, description = "The topic's identifier, or its id.")),
    responses((status = 200, description = "The topic.", body = TopicBody)),
)]
pub(crate) async fn retrieve(
    caller: AppCaller,
    gateway: Data<Gateway>,
    id: PathId,
) -> Result<HttpResponse, Failure> {
    let identifier = id.topic()?;
    let topic = topics::find(&gateway.operations, &caller.backend, caller.app, &identifier).await?;
    Ok(HttpResponse::Ok().json(present(&topic, None)))
}

/// Deletes a topic and its subscriptions.
///
/// If a topic with this identifier is created again, it has no subscribers. The subscriptions of a deleted topic count towards
/// the quota until the service has removed them, which may take a few minutes.
#[utoipa::path(
    delete,
    path = "/v3/topics/{topic}",
    operation_id = "deleteTopic",
    tag = "topics",
    security(("app" = [])),
    params(("topic" = TopicIdentifier, Path, description = "The topic's identifier, or its id.")),
    responses((status = 200, description = "The topic is deleted.", body = StatusBody)),
)]
pub(crate) async fn delete(
    caller: AppCaller,
    gateway: Data<Gateway>,
    id: PathId,
) -> Result<HttpResponse, Failure> {
    let identifier = id.topic()?;
    topics::delete(&gateway.operations, &caller.backend, caller.app, &identifier).await?;
    Ok(status_body(StatusCode::OK, "the topic was deleted"))
}

/// Reads the name and the flag `open`. A missing body has neither.
fn read_values(body: Option<Value>, strict: bool) -> Result<(Option<String>, Option<bool>), Failure> {
    let body = body.filter(|body| !body.is_null()).unwrap_or_else(|| Value::Object(Object::new()));
    read_members(body, strict, |values: &mut TopicValues, problems| {
        Some((values.name(problems), values.is_open(problems)))
    })
}

/// `subscription` is None if the call is not for a user.
fn present<'a>(topic: &'a Topic, subscription: Option<&'a Option<TopicChannels>>) -> TopicBody<'a> {
    TopicBody {
        id: topic.id,
        identifier: &topic.identifier,
        name: &topic.name,
        open: topic.open,
        subscribed: subscription.map(Option::is_some),
        channels: subscription.and_then(Option::as_ref).map(allowed),
        created_at: topic.created_at,
        updated_at: topic.updated_at,
    }
}

/// Returns the channels on which a topic may reach a subscriber.
pub(crate) fn allowed(channels: &TopicChannels) -> &[Channel] {
    channels.as_deref().unwrap_or(&Channel::DELIVERED)
}
