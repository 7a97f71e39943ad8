//! The subscriptions of users to topics: `/v3/topics/{topic}/subscriptions` and `/v3/users/{identifier}/topics` for the app, and
//! `/v3/topics/{topic}/subscription` for users.

use std::collections::HashSet;

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::web::Data;
use domain::body::kind::{Identifier as IdentifierMember, List};
use domain::fields::check_identifier;
use domain::topic::{ChannelOfTopic, MAX_CHANNELS, TopicChannels, limit, read_channels};
use domain::{Channel, Problem, Timestamp, TopicId, UserNumber};
use operations::{Conflict, OperationError, topics};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde_json::Value;
use store::directory::topic::subscription::{
    OwnSubscription, SubscribedTopic, Subscriber, SubscriptionChange,
};
use utoipa::ToSchema;
use web::body::{Body, read_members};
use web::cursor;
use web::failure::{Failure, valid_or_problems};
use web::handling::Handling;
use web::path_id::PathId;
use web::query::Query;
use web::status_body::{StatusBody, status_body};

use crate::access::caller::{AppCaller, UserCaller};
use crate::directory::topics::allowed;
use crate::gateway::Gateway;
use crate::openapi::described;
use crate::openapi::vocabulary::{self, Count, Cursor, Id, Identifier, Time, TopicIdentifier};

/// Maximum number of users whose subscriptions one request changes.
pub const USERS_OF_A_CHANGE: usize = 1_000;
/// Maximum number of subscriptions in an answer; also the default limit.
const MOST_SUBSCRIPTIONS: i64 = 1_000;

domain::body! {
    /// Users to subscribe and to unsubscribe, at most 1,000 together. At least one of the two lists is required, and no user may be in
    /// both.
    pub(crate) struct SubscriptionChanges {
        optional add: List<IdentifierMember, USERS_OF_A_CHANGE>,
        optional remove: List<IdentifierMember, USERS_OF_A_CHANGE>,
    }
    example {"add": ["ada", "bob"], "remove": ["eve"]}
}

domain::body! {
    /// Channels on which a topic may reach the user.
    pub(crate) struct OwnChannels {
        /// The only channels that sends to the topic may use, of those that the user's preferences leave. All five: no limit. None: the
        /// user gets nothing from the topic. If the member is missing, the channels stay as they are.
        optional channels: List<ChannelOfTopic, MAX_CHANNELS>,
    }
    example {"channels": ["inApp", "push"]}
}

/// Subscription of a user to a topic.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = OwnSubscription, example = json!({
    "topic": {"id": 12, "identifier": "news", "name": "News"}, "subscribed": true, "channels": ["inApp", "webPush", "mobilePush"],
}))]
struct OwnSubscriptionBody<'a> {
    topic: NamedTopic<'a>,
    subscribed: bool,
    /// The channels on which the topic may reach the user. Null if the user does not subscribe to the topic.
    #[schema(value_type = Option<Vec<vocabulary::Channel>>)]
    channels: Option<&'a [Channel]>,
}

#[derive(Serialize, ToSchema)]
pub(super) struct NamedTopic<'a> {
    #[schema(value_type = Id)]
    pub(super) id: TopicId,
    #[schema(value_type = TopicIdentifier)]
    pub(super) identifier: &'a str,
    pub(super) name: &'a str,
}

#[derive(Serialize, ToSchema)]
#[schema(as = SubscriptionsChanged, example = json!({"subscribed": 1, "unsubscribed": 0, "data": [
    {"identifier": "ada", "status": "subscribed"},
    {"identifier": "bob", "status": "unknownUser"},
    {"identifier": "eve", "status": "notSubscribed"},
]}))]
pub(super) struct Answer {
    /// Number of users who subscribe to the topic because of this request.
    #[schema(value_type = Count)]
    subscribed: usize,
    /// Number of users who no longer subscribe to the topic because of this request.
    #[schema(value_type = Count)]
    unsubscribed: usize,
    /// The result for each user of the request: first the users in `add`, then those in `remove`.
    data: Vec<ChangeBody>,
}

/// Result for a user of the request.
#[derive(Serialize, ToSchema)]
#[schema(as = SubscriptionChanged)]
struct ChangeBody {
    #[schema(value_type = Identifier)]
    identifier: String,
    #[schema(inline)]
    status: ChangeStatus,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
enum ChangeStatus {
    Subscribed,
    AlreadySubscribed,
    Unsubscribed,
    NotSubscribed,
    UnknownUser,
}

/// A user who subscribes to the topic.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Subscriber, example = json!({
    "identifier": "ada", "channels": ["inApp", "email"], "subscribedAt": "2027-01-31T09:00:00.000Z",
}))]
struct SubscriberBody<'a> {
    #[schema(value_type = Identifier)]
    identifier: &'a str,
    /// The channels on which the topic may reach the user.
    #[schema(value_type = Vec<vocabulary::Channel>)]
    channels: &'a [Channel],
    #[schema(value_type = Time)]
    subscribed_at: Timestamp,
}

/// A topic to which the user subscribes.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = SubscribedTopic, example = json!({
    "id": 12, "identifier": "news", "name": "News", "open": true, "channels": ["inApp", "email"],
    "subscribedAt": "2027-01-31T09:00:00.000Z",
}))]
struct SubscribedTopicBody<'a> {
    #[schema(value_type = Id)]
    id: TopicId,
    #[schema(value_type = TopicIdentifier)]
    identifier: &'a str,
    name: &'a str,
    /// True if users may subscribe themselves.
    open: bool,
    /// The channels on which the topic may reach the user.
    #[schema(value_type = Vec<vocabulary::Channel>)]
    channels: &'a [Channel],
    #[schema(value_type = Time)]
    subscribed_at: Timestamp,
}

/// Subscribes users to a topic and unsubscribes others.
///
/// If the request subscribes users and the topic does not exist, the topic is created with its identifier as the name; users may
/// not subscribe themselves to it. The answer has a result for each user. An unknown user does not affect the others, and is not
/// created.
#[utoipa::path(
    post,
    path = "/v3/topics/{topic}/subscriptions",
    operation_id = "changeSubscriptions",
    tag = "topics",
    security(("app" = [])),
    params(("topic" = TopicIdentifier, Path, description = "The topic's identifier.")),
    request_body = described::SubscriptionChanges,
    responses(
        (status = 200, description = "The result for each user.", body = Answer),
        (
            status = 403,
            description = "The app has reached its quota of topics or of subscriptions (`quota_reached`), or is disabled."
        ),
    ),
)]
pub(crate) async fn change(
    caller: AppCaller,
    gateway: Data<Gateway>,
    id: PathId,
    handling: Handling,
    body: Body,
) -> Result<HttpResponse, Failure> {
    let body = body.json().await?;
    let topic = id.topic()?;
    let (add, remove) = read_changes(body, handling.strict)?;
    let changing =
        topics::change_subscriptions(&gateway.operations, &caller.backend, caller.app, &topic, &add, &remove);
    Ok(HttpResponse::Ok().json(Answer::of(changing.await?)))
}

/// Lists the subscribers of a topic, in the order in which the users were created.
///
/// The answer has at most 1,000 subscribers. If more exist, the header `Link` leads to the next page (`rel="next"`, RFC 8288).
#[utoipa::path(
    get,
    path = "/v3/topics/{topic}/subscriptions",
    operation_id = "listSubscriptions",
    tag = "topics",
    security(("app" = [])),
    params(
        ("topic" = TopicIdentifier, Path, description = "The topic's identifier, or its id."),
        ("limit" = Option<i64>, Query, description = "Maximum number of subscribers; 1000 by default.", minimum = 1, maximum = 1000),
        ("cursor" = inline(Option<Cursor>), Query, description = "The cursor in the `Link` of an earlier answer."),
    ),
    responses((status = 200, description = "The subscribers.", body = Vec<SubscriberBody>)),
)]
pub(crate) async fn list(
    caller: AppCaller,
    gateway: Data<Gateway>,
    id: PathId,
    query: Query,
) -> Result<HttpResponse, Failure> {
    let topic = id.topic()?;
    let mut problems = Vec::new();
    let limit = read_limit(&query, &mut problems);
    let after = cursor::read(&query, |text| text.parse().ok().map(UserNumber), &mut problems);
    query.finish(&mut problems);
    valid_or_problems(Some(()), problems)?;
    // Read one subscriber more than the page shows, to find out if there is a next page.
    let listing =
        topics::subscribers(&gateway.operations, &caller.backend, caller.app, &topic, after, limit + 1);
    let subscribers = listing.await?;
    let path = format!("/v3/topics/{topic}/subscriptions");
    Ok(cursor::linked_page(&path, limit, &subscribers, |subscriber| subscriber.number, subscriber_body))
}

/// Lists the topics to which a user subscribes, in order of creation.
///
/// The answer has at most 1,000 topics. If more exist, the header `Link` leads to the next page (`rel="next"`, RFC 8288).
#[utoipa::path(
    get,
    path = "/v3/users/{identifier}/topics",
    operation_id = "listTopicsOfUser",
    tag = "topics",
    security(("app" = [])),
    params(
        ("identifier" = Identifier, Path, description = "The user's identifier."),
        ("limit" = Option<i64>, Query, description = "Maximum number of topics; 1000 by default.", minimum = 1, maximum = 1000),
        ("cursor" = inline(Option<Cursor>), Query, description = "The cursor in the `Link` of an earlier answer."),
    ),
    responses((status = 200, description = "The topics of the user.", body = Vec<SubscribedTopicBody>)),
)]
pub(crate) async fn list_of_user(
    caller: AppCaller,
    gateway: Data<Gateway>,
    id: PathId,
    query: Query,
) -> Result<HttpResponse, Failure> {
    let user = id.user()?;
    let (limit, topics) = topics_of_user(&caller, &gateway, &user, &query).await?;
    let path = format!("/v3/users/{}/topics", utf8_percent_encode(&user, NON_ALPHANUMERIC));
    Ok(cursor::linked_page(&path, limit, &topics, |topic| topic.id, topic_body))
}

/// Subscribes the user to a topic, and sets the channels on which the topic may reach the user.
///
/// Users may subscribe themselves only to open topics. For any other topic they get a 404, whether it exists or not, unless they already
/// subscribe to it. The app's backend can subscribe its users to any topic with another call. A missing user is created. Without
/// `channels`, the channels stay as they are; a new subscription has all.
#[utoipa::path(
    put,
    path = "/v3/topics/{topic}/subscription",
    operation_id = "subscribeToTopic",
    tag = "topics",
    security(("user" = [])),
    params(("topic" = TopicIdentifier, Path, description = "The topic's identifier, or its id.")),
    request_body = Option<described::OwnChannels>,
    responses(
        (status = 200, description = "The user subscribes to the topic.", body = StatusBody),
        (
            status = 403,
            description = "A call with the API secret names a topic that is not open (`topic_closed`), a quota of the app is reached (`quota_reached`), or the app is disabled."
        ),
    ),
)]
pub(crate) async fn subscribe(
    caller: UserCaller,
    gateway: Data<Gateway>,
    id: PathId,
    handling: Handling,
    body: Body,
) -> Result<HttpResponse, Failure> {
    let body = body.optional_json().await?;
    let topic = id.topic()?;
    let channels = read_own_channels(body, handling.strict)?;
    let subscribed = topics::subscribe(&gateway.operations, &caller.caller, &topic, channels.as_ref()).await;
    subscribed.map_err(|error| match error {
        OperationError::Conflict(Conflict::TopicClosed) => {
            let message = "the topic is not open; only the app's backend can subscribe users to it, with \
                           POST /v3/topics/{topic}/subscriptions";
            Failure::refused(StatusCode::FORBIDDEN, "topic_closed", message)
        }
        error => error.into(),
    })?;
    Ok(status_body(StatusCode::OK, "the user subscribes to the topic"))
}

/// Gets a topic and the user's subscription to it.
#[utoipa::path(
    get,
    path = "/v3/topics/{topic}/subscription",
    operation_id = "getOwnSubscription",
    tag = "topics",
    security(("user" = [])),
    params(("topic" = TopicIdentifier, Path, description = "The topic's identifier, or its id.")),
    responses((status = 200, description = "The subscription.", body = OwnSubscriptionBody)),
)]
pub(crate) async fn retrieve_own(
    caller: UserCaller,
    gateway: Data<Gateway>,
    id: PathId,
) -> Result<HttpResponse, Failure> {
    let topic = id.topic()?;
    let OwnSubscription { topic, channels } =
        topics::own_subscription(&gateway.operations, &caller.caller, &topic).await?;
    Ok(HttpResponse::Ok().json(OwnSubscriptionBody {
        topic: NamedTopic { id: topic.id, identifier: &topic.identifier, name: &topic.name },
        subscribed: channels.is_some(),
        channels: channels.as_ref().map(allowed),
    }))
}

/// Unsubscribes the user from a topic.
///
/// Users may unsubscribe from every topic, open or not. For an unknown topic they get the same answer. Repeating the call changes nothing.
#[utoipa::path(
    delete,
    path = "/v3/topics/{topic}/subscription",
    operation_id = "unsubscribeFromTopic",
    tag = "topics",
    security(("user" = [])),
    params(("topic" = TopicIdentifier, Path, description = "The topic's identifier, or its id.")),
    responses((status = 200, description = "The user does not subscribe to the topic.", body = StatusBody)),
)]
pub(crate) async fn unsubscribe(
    caller: UserCaller,
    gateway: Data<Gateway>,
    id: PathId,
) -> Result<HttpResponse, Failure> {
    let topic = id.topic()?;
    topics::unsubscribe(&gateway.operations, &caller.caller, &topic).await?;
    Ok(status_body(StatusCode::OK, "the user does not subscribe to the topic"))
}

fn read_own_channels(body: Option<Value>, strict: bool) -> Result<Option<TopicChannels>, Failure> {
    let Some(body) = body.filter(|body| !body.is_null()) else { return Ok(None) };
    read_members(body, strict, |body: &mut OwnChannels, problems| {
        let names = body.channels(problems);
        Some(names.map(|names| limit(&read_channels("channels", &names, problems))))
    })
}

/// Reads the limit of a page and the topics of a user for it: one more than the page shows, if there is a next page.
pub(super) async fn topics_of_user(
    caller: &AppCaller,
    gateway: &Gateway,
    user: &str,
    query: &Query,
) -> Result<(i64, Vec<SubscribedTopic>), Failure> {
    let mut problems = Vec::new();
    let limit = read_limit(query, &mut problems);
    let after = cursor::read(query, |text| text.parse().ok(), &mut problems);
    query.finish(&mut problems);
    valid_or_problems(Some(()), problems)?;
    let listing = topics::of_user(&gateway.operations, &caller.backend, caller.app, user, after, limit + 1);
    Ok((limit, listing.await?))
}

fn read_limit(query: &Query, problems: &mut Vec<Problem>) -> i64 {
    query.number("limit", 1..=MOST_SUBSCRIPTIONS, problems).unwrap_or(MOST_SUBSCRIPTIONS)
}

/// Reads the identifiers of the users to subscribe and to unsubscribe. Each user is in one list only, and there only once.
fn read_changes(body: Value, strict: bool) -> Result<(Vec<String>, Vec<String>), Failure> {
    let lists = read_members(body, strict, |changes: &mut SubscriptionChanges, problems| {
        if !changes.fields.has("add") && !changes.fields.has("remove") {
            let message = "add or remove is required, an array of user identifiers";
            problems.push(Problem::new("add", "required", message));
        }
        let add = changes.add(problems).unwrap_or_default();
        Some((add, changes.remove(problems).unwrap_or_default()))
    });
    let (add, remove) = lists?;
    if add.len() + remove.len() > USERS_OF_A_CHANGE {
        let field = if add.len() >= remove.len() { "add" } else { "remove" };
        let message = format!(
            "add and remove must have at most {USERS_OF_A_CHANGE} users together; send the others in another request"
        );
        return Err(Failure::problem(field, "too_many", message));
    }
    let mut problems = Vec::new();
    let add = read_identifiers("add", add, &mut problems);
    let remove = read_identifiers("remove", remove, &mut problems);
    let added: HashSet<&str> = add.iter().map(|(_, identifier)| identifier.as_str()).collect();
    problems.extend(remove.iter().filter(|(_, identifier)| added.contains(identifier.as_str())).map(
        |(path, identifier)| {
            let message =
                format!("{path} is {identifier:?}, which add names too; name the user in one of the lists");
            Problem::new(path, "conflicting", message)
        },
    ));
    let identifiers =
        |list: Vec<(String, String)>| list.into_iter().map(|(_, identifier)| identifier).collect();
    valid_or_problems(Some((identifiers(add), identifiers(remove))), problems)
}

/// Returns the identifiers of a list with their paths. An identifier that the list repeats is returned once.
pub(super) fn read_identifiers(
    path: &str,
    elements: Vec<Value>,
    problems: &mut Vec<Problem>,
) -> Vec<(String, String)> {
    let mut seen = HashSet::new();
    let mut identifiers = Vec::with_capacity(elements.len());
    for (index, element) in elements.into_iter().enumerate() {
        let path = format!("{path}[{index}]");
        let Value::String(text) = element else {
            let message = format!("{path} must be a string, the identifier of a user");
            problems.push(Problem::new(path, "invalid_type", message));
            continue;
        };
        if let Some(identifier) = check_identifier(&path, text, problems)
            && seen.insert(identifier.clone())
        {
            identifiers.push((path, identifier));
        }
    }
    identifiers
}

impl Answer {
    pub(super) fn of(changes: Vec<(String, SubscriptionChange)>) -> Answer {
        let count = |wanted| changes.iter().filter(|(_, change)| *change == wanted).count();
        Answer {
            subscribed: count(SubscriptionChange::Subscribed),
            unsubscribed: count(SubscriptionChange::Unsubscribed),
            data: changes.into_iter().map(ChangeBody::from).collect(),
        }
    }
}

impl From<(String, SubscriptionChange)> for ChangeBody {
    fn from((identifier, change): (String, SubscriptionChange)) -> ChangeBody {
        let status = match change {
            SubscriptionChange::Subscribed => ChangeStatus::Subscribed,
            SubscriptionChange::AlreadySubscribed => ChangeStatus::AlreadySubscribed,
            SubscriptionChange::Unsubscribed => ChangeStatus::Unsubscribed,
            SubscriptionChange::NotSubscribed => ChangeStatus::NotSubscribed,
            SubscriptionChange::UnknownUser => ChangeStatus::UnknownUser,
        };
        ChangeBody { identifier, status }
    }
}

fn subscriber_body(subscriber: &Subscriber) -> SubscriberBody<'_> {
    SubscriberBody {
        identifier: &subscriber.identifier,
        channels: allowed(&subscriber.channels),
        subscribed_at: subscriber.subscribed_at,
    }
}

fn topic_body(topic: &SubscribedTopic) -> SubscribedTopicBody<'_> {
    SubscribedTopicBody {
        id: topic.id,
        identifier: &topic.identifier,
        name: &topic.name,
        open: topic.open,
        channels: allowed(&topic.channels),
        subscribed_at: topic.subscribed_at,
    }
}
