//! `/v3/explain`: why a person got a notification or did not.

use actix_web::HttpResponse;
use actix_web::web::Data;
use domain::explain::{ChannelStory, ShownFix, StoryEvent};
use domain::{Channel, Problem, Reason, SendId, Status, Timestamp};
use operations::explain::{self, Explained, ExplainedSends, Explanation, Now, Person};
use operations::requests::SendFilter;
use operations::{Object, OperationError};
use serde::Serialize;
use store::sends::story::StoredRequest;
use utoipa::openapi::schema::OneOfBuilder;
use utoipa::openapi::{Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};
use web::failure::{ErrorBody, Failure, valid_or_problems};
use web::query::Query;

use crate::access::caller::AppCaller;
use crate::deliveries::shown::{DeliveryBody, present};
use crate::gateway::Gateway;
use crate::openapi::vocabulary::{self, Cursor, Identifier, Time, Uuid};
use crate::sends::list::{SendBody, TemplateBody, read_cursor, read_time, write_cursor};

const PAGE: i64 = 10;
const LARGEST_PAGE: i64 = 50;

/// Explanation of one send for one person, or of the latest sends to the person.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Explanation, example = json!({
    "verdict": "Ada has the inbox item. No text message: Ada turned this channel off for the category.",
    "person": {"identifier": "ada", "name": "Ada"},
    "request": {
        "requestId": "018f3c6e-7d1a-7cc2-b3a4-9a1f0f6f2b11", "title": "Order 7 shipped", "category": "orders",
        "template": {"identifier": "order-shipped", "version": 4}, "acceptedAt": "2027-01-31T09:00:00.000Z",
        "sendAt": null, "expiresAt": null, "cancelledAt": null,
    },
    "channels": [{
        "channel": "sms", "status": "skipped", "reason": "preference_off",
        "sentence": "No text message: Ada turned this channel off for the category.",
        "fix": {"text": "Only the user should change this", "action": null}, "documentation": "statuses.md#skipped-preference_off",
        "deliveries": [],
    }],
    "events": [{
        "at": "2027-01-31T09:00:00.000Z", "kind": "accepted", "channel": null, "text": "the API accepted the send",
        "waitedMs": null, "tookMs": null,
    }],
    "now": {"category": "orders", "text": "inApp yes · sms no, preference off", "channels": [
        {"channel": "inApp", "sends": true, "reason": null}, {"channel": "sms", "sends": false, "reason": "preference_off"},
    ]},
    "sends": [], "nextCursor": null,
}))]
struct ExplanationBody<'a> {
    /// Answer to the question in a few sentences.
    verdict: &'a str,
    /// Null if the user was erased.
    person: Option<PersonBody<'a>>,
    /// The send; null if the call named none, or if the send is not planned yet.
    request: Option<RequestBody<'a>>,
    /// Result of the send on each channel; empty if the person is no recipient.
    channels: Vec<ChannelBody<'a>>,
    /// Events, earliest first.
    events: Vec<EventBody<'a>>,
    /// Decisions for the same send, or for a send of the category, if it were made now; null if the call did not ask for them.
    now: Option<NowBody<'a>>,
    /// Latest sends to the person, with their verdicts; empty if the call named a send.
    sends: Vec<ExplainedSendBody>,
    /// Cursor for the sends before those that were examined; null if no further send matches.
    next_cursor: Option<String>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ExplainedPerson)]
struct PersonBody<'a> {
    #[schema(value_type = Identifier)]
    identifier: &'a str,
    /// `name` of the profile.
    name: Option<&'a str>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ExplainedRequest)]
struct RequestBody<'a> {
    #[schema(value_type = Uuid)]
    request_id: SendId,
    title: Option<&'a str>,
    category: Option<&'a str>,
    template: Option<TemplateBody>,
    #[schema(value_type = Time)]
    accepted_at: Timestamp,
    #[schema(value_type = Option<Time>)]
    send_at: Option<Timestamp>,
    #[schema(value_type = Option<Time>)]
    expires_at: Option<Timestamp>,
    #[schema(value_type = Option<Time>)]
    cancelled_at: Option<Timestamp>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ExplainedChannel)]
struct ChannelBody<'a> {
    #[schema(value_type = vocabulary::Channel)]
    channel: Channel,
    /// Of several deliveries, the status of the one that came farthest.
    #[schema(value_type = vocabulary::Status)]
    status: Status,
    #[schema(value_type = Option<vocabulary::Reason>)]
    reason: Option<Reason>,
    sentence: &'a str,
    /// Null if there is nothing to do.
    fix: Option<FixBody<'a>>,
    /// Row of the status and reason in the documentation.
    documentation: String,
    deliveries: Vec<DeliveryBody<'a>>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Fix)]
struct FixBody<'a> {
    text: &'a str,
    /// Command or call that helps, if one does.
    action: Option<&'a str>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StoryEvent)]
struct EventBody<'a> {
    #[schema(value_type = Time)]
    at: Timestamp,
    /// `accepted`, `scheduled`, `planned`, `attempt`, `receipt`, `seen`, `read`, `deleted` or `cancelled`.
    kind: &'static str,
    #[schema(value_type = Option<vocabulary::Channel>)]
    channel: Option<Channel>,
    text: &'a str,
    /// Milliseconds since the step before it.
    waited_ms: Option<u64>,
    /// Milliseconds that the call to the provider took.
    took_ms: Option<u64>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = WhatNow)]
struct NowBody<'a> {
    category: Option<&'a str>,
    /// All channels on one line.
    text: String,
    channels: Vec<NowChannelBody>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = WhatNowChannel)]
struct NowChannelBody {
    #[schema(value_type = vocabulary::Channel)]
    channel: Channel,
    /// True if the message would be sent.
    sends: bool,
    #[schema(value_type = Option<vocabulary::Reason>)]
    reason: Option<Reason>,
}

/// A send to the person, with its verdict.
#[derive(Serialize, ToSchema)]
#[schema(as = ExplainedSend)]
struct ExplainedSendBody {
    #[serde(flatten)]
    send: SendBody,
    verdict: String,
}

/// The body of a 404: an error, with similar identifiers if there are any.
struct NotFoundBody;

impl PartialSchema for NotFoundBody {
    fn schema() -> RefOr<Schema> {
        let refs = [ErrorBody::name(), UnknownUserBody::name()].map(Ref::from_schema_name);
        refs.into_iter().fold(OneOfBuilder::new(), OneOfBuilder::item).into()
    }
}

impl ToSchema for NotFoundBody {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((UnknownUserBody::name().into(), UnknownUserBody::schema()));
    }
}

#[derive(Serialize, ToSchema)]
#[schema(as = UnknownUser, example = json!({
    "status": "error", "message": "no such user", "code": "not_found", "similar": ["ada"],
}))]
struct UnknownUserBody {
    #[schema(pattern = "^error$")]
    status: &'static str,
    message: &'static str,
    code: &'static str,
    /// Identifiers of users that are nearly the same; 1 to 3.
    similar: Vec<String>,
}

struct Question {
    user: String,
    request: Option<SendId>,
    category: Option<String>,
    since: Option<Timestamp>,
    limit: Option<i64>,
    before: Option<SendId>,
    now: Option<bool>,
}

/// Explains why a person got a notification or did not.
///
/// With `request`, the answer tells the story of this send for the person: a verdict, each channel with its cause and the fix, and
/// every event with its times. Without, it lists the latest sends to the person with their verdicts; `category`, `since` and `limit`
/// narrow the list. A call examines at most 2,000 sends; `nextCursor` continues with earlier ones. `now=true` adds what the same send, or
/// a send of `category`, would do now. Alone, without `request`, `since`, `limit` and `cursor`, it answers only that. Words of providers
/// are quoted.
#[utoipa::path(
    get,
    path = "/v3/explain",
    operation_id = "explain",
    tag = "requests",
    security(("app" = [])),
    params(
        ("user" = Identifier, Query, description = "Identifier of the person."),
        ("request" = Option<Uuid>, Query, description = "The `requestId` of the send."),
        ("category" = Option<String>, Query, description = "Only sends of this category; also the category of `now`."),
        ("since" = Option<Time>, Query, description = "Only sends that were accepted at this time or later."),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 50, description = "Maximum number of sends; 10 by default."),
        ("cursor" = inline(Option<Cursor>), Query, description = "The `nextCursor` of an earlier answer."),
        ("now" = Option<bool>, Query, description = "True: also say what would happen now. By default true with `request`, otherwise false."),
    ),
    responses(
        (status = 200, description = "The explanation.", body = ExplanationBody),
        (status = 404, description = "No such user, or no such request.", body = inline(NotFoundBody)),
    ),
)]
pub(crate) async fn explain(
    caller: AppCaller,
    gateway: Data<Gateway>,
    query: Query,
) -> Result<HttpResponse, Failure> {
    let asked = read(&query)?;
    let (operations, backend, app) = (&gateway.operations, &caller.backend, caller.app);
    if let Some(send) = asked.request {
        let now = asked.now.unwrap_or(true);
        let found = explain::request(operations, backend, app, &asked.user, send, now).await?;
        return answer(found, |explanation| one(send, explanation));
    }
    let now = asked.now.unwrap_or(false);
    let is_alone = now && asked.since.is_none() && asked.limit.is_none() && asked.before.is_none();
    let limit = if is_alone { 0 } else { asked.limit.unwrap_or(PAGE) };
    let (category, since, before) = (asked.category.as_deref(), asked.since, asked.before);
    let filter = SendFilter { category, since, before, ..SendFilter::default() };
    let limit = usize::try_from(limit).unwrap_or(0);
    let found = explain::latest(operations, backend, app, &asked.user, filter, limit, now).await?;
    answer(found, latest)
}

fn read(query: &Query) -> Result<Question, Failure> {
    let mut problems = Vec::new();
    let user = query.text("user", &mut problems);
    if user.is_none() && problems.is_empty() {
        problems.push(Problem::new("user", "required", "user is required: the identifier of the person"));
    }
    let request = query.text("request", &mut problems).and_then(|text| {
        let id = text.parse().ok().map(SendId);
        if id.is_none() {
            let message = "request must be the requestId from the answer to a send";
            problems.push(Problem::new("request", "invalid_id", message));
        }
        id
    });
    let asked = Question {
        user: user.unwrap_or_default(),
        request,
        category: query.text("category", &mut problems),
        since: read_time(query, "since", &mut problems),
        limit: query.number("limit", 1..=LARGEST_PAGE, &mut problems),
        before: read_cursor(query, &mut problems),
        now: query.flag("now", &mut problems),
    };
    query.finish(&mut problems);
    valid_or_problems(Some(asked), problems)
}

fn answer<T>(found: Explained<T>, present: impl FnOnce(&T) -> HttpResponse) -> Result<HttpResponse, Failure> {
    Ok(match found {
        Explained::Found(found) => present(&found),
        Explained::Erased => HttpResponse::Ok().json(ExplanationBody {
            verdict: "The user was erased.",
            person: None,
            request: None,
            channels: Vec::new(),
            events: Vec::new(),
            now: None,
            sends: Vec::new(),
            next_cursor: None,
        }),
        Explained::UnknownUser { similar } if similar.is_empty() => {
            return Err(OperationError::NotFound(Object::User).into());
        }
        Explained::UnknownUser { similar } => {
            let (status, message, code) = ("error", "no such user", "not_found");
            HttpResponse::NotFound().json(UnknownUserBody { status, message, code, similar })
        }
    })
}

fn one(send: SendId, explanation: &Explanation) -> HttpResponse {
    let story = explanation.story.as_ref();
    let channels = story.map(|story| story.channels.as_slice()).unwrap_or_default();
    let events = story.map(|story| story.events.as_slice()).unwrap_or_default();
    HttpResponse::Ok().json(ExplanationBody {
        verdict: &explanation.verdict,
        person: Some(person(&explanation.person)),
        request: explanation.request.as_ref().map(|request| request_body(send, request)),
        channels: channels.iter().map(|channel| channel_body(send, channel, explanation)).collect(),
        events: events.iter().map(event_body).collect(),
        now: explanation.now.as_ref().map(now_body),
        sends: Vec::new(),
        next_cursor: None,
    })
}

fn latest(explained: &ExplainedSends) -> HttpResponse {
    let person_of = &explained.person;
    let sends = explained.sends.iter().map(|explained| ExplainedSendBody {
        send: explained.send.clone().into(),
        verdict: explained.verdict.clone(),
    });
    let sends: Vec<ExplainedSendBody> = sends.collect();
    let verdict = match (&explained.now, sends.first()) {
        (_, Some(last)) => format!("The latest of these sends: {}", last.verdict),
        (Some(now), None) => now.line(),
        (None, None) => explained.none_matches(),
    };
    HttpResponse::Ok().json(ExplanationBody {
        verdict: &verdict,
        person: Some(person(person_of)),
        request: None,
        channels: Vec::new(),
        events: Vec::new(),
        now: explained.now.as_ref().map(now_body),
        sends,
        next_cursor: explained.next.map(write_cursor),
    })
}

fn person(person: &Person) -> PersonBody<'_> {
    PersonBody { identifier: &person.identifier, name: person.name.as_deref() }
}

fn request_body(request_id: SendId, request: &StoredRequest) -> RequestBody<'_> {
    RequestBody {
        request_id,
        title: request.title.as_deref(),
        category: request.category.as_deref(),
        template: request.template.clone().map(TemplateBody::from),
        accepted_at: request.accepted_at,
        send_at: request.send_at,
        expires_at: request.expires_at,
        cancelled_at: request.cancelled_at,
    }
}

fn channel_body<'a>(
    request: SendId,
    channel: &'a ChannelStory,
    explanation: &'a Explanation,
) -> ChannelBody<'a> {
    let pairs = channel.pairs.iter().filter_map(|place| explanation.pairs.get(*place));
    ChannelBody {
        channel: channel.channel,
        status: channel.status,
        reason: channel.reason,
        sentence: &channel.sentence,
        fix: channel
            .fix
            .as_ref()
            .map(|ShownFix { text, action }| FixBody { text, action: action.as_deref() }),
        documentation: format!("statuses.md#{}", channel.anchor),
        deliveries: pairs.filter(|pair| pair.id.is_some()).map(|pair| present(request, pair)).collect(),
    }
}

fn event_body(event: &StoryEvent) -> EventBody<'_> {
    EventBody {
        at: event.at,
        kind: event.kind.as_str(),
        channel: event.channel,
        text: &event.text,
        waited_ms: event.waited_ms,
        took_ms: event.took_ms,
    }
}

fn now_body(now: &Now) -> NowBody<'_> {
    let channels = now.channels.iter().map(|decided| NowChannelBody {
        channel: decided.channel,
        sends: decided.reason.is_none(),
        reason: decided.reason,
    });
    NowBody { category: now.category.as_deref(), text: now.line(), channels: channels.collect() }
}
