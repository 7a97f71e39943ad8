//! Calls of server clients that change subscribers: `/v3/topics/{topic}/users`, `/v3/topics/{topic}/detachUsers` and
//! `/v3/topics/subscriptions/{identifier}`.

use std::collections::HashMap;

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::web::Data;
use domain::body::Body as _;
use domain::body::kind::{Identifier as IdentifierMember, Inline, List};
use domain::fields::check_plain_json;
use domain::topic::{ChannelOfTopic, MAX_CHANNELS, TopicChannels, limit, read_channels};
use domain::{Channel, Problem, Timestamp};
use operations::topics;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde_json::Value;
use store::directory::topic::subscription::{NewSubscriber, SubscribedTopic};
use utoipa::ToSchema;
use web::body::{Body, read_members};
use web::cursor;
use web::failure::{Failure, valid_or_problems};
use web::handling::Handling;
use web::path_id::{PathId, PathUser};
use web::query::Query;
use web::status_body::{StatusBody, status_body};

use crate::access::caller::AppCaller;
use crate::directory::subscriptions::{
    Answer, NamedTopic, USERS_OF_A_CHANGE, read_identifiers, topics_of_user,
};
use crate::directory::topics::allowed;
use crate::gateway::Gateway;
use crate::openapi::described;
use crate::openapi::vocabulary::{self, Cursor, Identifier, Time, TopicIdentifier};

domain::body! {
    /// Users to subscribe.
    pub(crate) struct NewSubscribers {
        required users: List<Inline<SubscriberToAdd>, USERS_OF_A_CHANGE>,
    }
    example {"users": [{"identifier": "ada", "channels": ["inApp", "push"]}, {"identifier": "bob"}]}
}

domain::body! {
    /// A user to subscribe.
    struct SubscriberToAdd {
        required identifier: IdentifierMember,
        /// The channels on which the topic may reach the user. Default: all; an existing subscription keeps its channels.
        optional channels: List<ChannelOfTopic, MAX_CHANNELS>,
    }
}

domain::body! {
    /// Users to unsubscribe.
    pub(crate) struct FormerSubscribers {
        required users: List<IdentifierMember, USERS_OF_A_CHANGE>,
    }
    example {"users": ["ada", "bob"]}
}

domain::body! {
    /// Channels of a subscription.
    pub(crate) struct NewChannels {
        /// The channels on which the topic may reach the user.
        required channels: List<ChannelOfTopic, MAX_CHANNELS>,
    }
    example {"channels": ["inApp", "push"]}
}

/// A subscription of the user.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = SubscriptionOfUser, example = json!({
    "topic": {"id": 12, "identifier": "news", "name": "News"}, "channels": ["inApp", "webPush", "mobilePush"],
    "subscribedAt": "2027-01-31T09:00:00.000Z",
}))]
struct SubscriptionBody<'a> {
    topic: NamedTopic<'a>,
    /// The channels on which the topic may reach the user.
    #[schema(value_type = Vec<vocabulary::Channel>)]
    channels: &'a [Channel],
    #[schema(value_type = Time)]
    subscribed_at: Timestamp,
}

/// Subscribes users to a topic, each with the channels on which the topic may reach the user.
///
/// Missing users are created. If a user already subscribes, the call only sets the channels, if they are given. The answer has a result
/// for each user.
#[utoipa::path(
    post,
    path = "/v3/topics/{topic}/users",
    operation_id = "addSubscribers",
    tag = "topics",
    security(("app" = [])),
    params(("topic" = TopicIdentifier, Path, description = "The topic's identifier, or its id.")),
    request_body = described::NewSubscribers,
    responses(
        (status = 200, description = "The result for each user.", body = Answer),
        (status = 403, description = "The app has reached its quota of subscriptions or of users (`quota_reached`), or is disabled."),
    ),
)]
pub(crate) async fn add(
    caller: AppCaller,
    gateway: Data<Gateway>,
    id: PathId,
    handling: Handling,
    body: Body,
) -> Result<HttpResponse, Failure> {
    let body = body.json().await?;
    let topic = id.topic()?;
    let users = read_subscribers(body, handling.strict)?;
    let adding = topics::add_subscribers(&gateway.operations, &caller.backend, caller.app, &topic, &users);
    Ok(HttpResponse::Ok().json(Answer::of(adding.await?)))
}

/// Unsubscribes users from a topic. The answer has a result for each user.
#[utoipa::path(
    post,
    path = "/v3/topics/{topic}/detachUsers",
    operation_id = "removeSubscribers",
    tag = "topics",
    security(("app" = [])),
    params(("topic" = TopicIdentifier, Path, description = "The topic's identifier, or its id.")),
    request_body = described::FormerSubscribers,
    responses((status = 200, description = "The result for each user.", body = Answer)),
)]
pub(crate) async fn remove(
    caller: AppCaller,
    gateway: Data<Gateway>,
    id: PathId,
    handling: Handling,
    body: Body,
) -> Result<HttpResponse, Failure> {
    let body = body.json().await?;
    let topic = id.topic()?;
    let users = read_members(body, handling.strict, |body: &mut FormerSubscribers, problems| {
        let users = body.users(problems).unwrap_or_default();
        let users = read_identifiers("users", at_most(users, problems), problems);
        Some(users.into_iter().map(|(_, identifier)| identifier).collect::<Vec<_>>())
    });
    let users = users?;
    let removing =
        topics::remove_subscribers(&gateway.operations, &caller.backend, caller.app, &topic, &users);
    Ok(HttpResponse::Ok().json(Answer::of(removing.await?)))
}

/// Sets the channels on which a topic may reach a subscriber.
///
/// The channels narrow what the user's preferences allow; they do not apply to critical categories. A channel that is left out is skipped
/// with the reason `topic_channel_off`.
#[utoipa::path(
    put,
    path = "/v3/topics/{topic}/users/{identifier}",
    operation_id = "setSubscriptionChannels",
    tag = "topics",
    security(("app" = [])),
    params(
        ("topic" = TopicIdentifier, Path, description = "The topic's identifier, or its id."),
        ("identifier" = Identifier, Path, description = "The user's identifier."),
    ),
    request_body = described::NewChannels,
    responses((status = 200, description = "The channels are set.", body = StatusBody)),
)]
pub(crate) async fn set_channels(
    caller: AppCaller,
    gateway: Data<Gateway>,
    id: PathId,
    user: PathUser,
    handling: Handling,
    body: Body,
) -> Result<HttpResponse, Failure> {
    let body = body.json().await?;
    let (topic, user) = (id.topic()?, user.identifier()?);
    let channels = read_members(body, handling.strict, |body: &mut NewChannels, problems| {
        let names = body.channels(problems)?;
        Some(limit(&read_channels("channels", &names, problems)))
    });
    let channels = channels?;
    let setting =
        topics::set_channels(&gateway.operations, &caller.backend, caller.app, &topic, &user, &channels);
    setting.await?;
    Ok(status_body(StatusCode::OK, "the channels of the subscription were changed"))
}

/// Lists the subscriptions of a user, in the order in which their topics were created.
///
/// The answer has at most 1,000 subscriptions. If more exist, the header `Link` leads to the next page (`rel="next"`, RFC 8288).
#[utoipa::path(
    get,
    path = "/v3/topics/subscriptions/{identifier}",
    operation_id = "listSubscriptionsOfUser",
    tag = "topics",
    security(("app" = [])),
    params(
        ("identifier" = Identifier, Path, description = "The user's identifier."),
        ("limit" = Option<i64>, Query, description = "Maximum number of subscriptions; 1000 by default.", minimum = 1, maximum = 1000),
        ("cursor" = inline(Option<Cursor>), Query, description = "The cursor in the `Link` of an earlier answer."),
    ),
    responses((status = 200, description = "The subscriptions of the user.", body = Vec<SubscriptionBody>)),
)]
pub(crate) async fn list_of_user(
    caller: AppCaller,
    gateway: Data<Gateway>,
    id: PathId,
    query: Query,
) -> Result<HttpResponse, Failure> {
    let user = id.user()?;
    let (limit, topics) = topics_of_user(&caller, &gateway, &user, &query).await?;
    let path = format!("/v3/topics/subscriptions/{}", utf8_percent_encode(&user, NON_ALPHANUMERIC));
    Ok(cursor::linked_page(&path, limit, &topics, |topic| topic.id, present))
}

/// Reads the users to subscribe. If the list repeats a user, the last element counts.
fn read_subscribers(body: Value, strict: bool) -> Result<Vec<NewSubscriber>, Failure> {
    let mut problems = Vec::new();
    check_plain_json("", &body, &mut problems);
    let elements = NewSubscribers::open("", body, &mut problems).map(|mut body| {
        let users = body.users(&mut problems).unwrap_or_default();
        body.fields.finish(strict, &mut problems);
        at_most(users, &mut problems)
    });
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut users = Vec::new();
    for (index, element) in elements.unwrap_or_default().into_iter().enumerate() {
        let Some(user) = read_subscriber(&format!("users[{index}]"), element, strict, &mut problems) else {
            continue;
        };
        match places.get(&user.identifier).and_then(|place| users.get_mut(*place)) {
            Some(earlier) => *earlier = user,
            None => {
                places.insert(user.identifier.clone(), users.len());
                users.push(user);
            }
        }
    }
    valid_or_problems(Some(users), problems)
}

fn read_subscriber(
    path: &str,
    element: Value,
    strict: bool,
    problems: &mut Vec<Problem>,
) -> Option<NewSubscriber> {
    let mut user = SubscriberToAdd::open(path, element, problems)?;
    let identifier = user.identifier(problems);
    let names = user.channels(problems);
    let channels_path = user.fields.path("channels");
    let channels: Option<TopicChannels> =
        names.map(|names| limit(&read_channels(&channels_path, &names, problems)));
    user.fields.finish(strict, problems);
    Some(NewSubscriber { identifier: identifier?, channels })
}

fn at_most(users: Vec<Value>, problems: &mut Vec<Problem>) -> Vec<Value> {
    if users.len() <= USERS_OF_A_CHANGE {
        return users;
    }
    let message =
        format!("users must have at most {USERS_OF_A_CHANGE} elements; send the others in another request");
    problems.push(Problem::new("users", "too_many", message));
    Vec::new()
}

fn present(topic: &SubscribedTopic) -> SubscriptionBody<'_> {
    SubscriptionBody {
        topic: NamedTopic { id: topic.id, identifier: &topic.identifier, name: &topic.name },
        channels: allowed(&topic.channels),
        subscribed_at: topic.subscribed_at,
    }
}
