//! People, explanations and suppressions.

use domain::target::masked;
use domain::{Channel, Problem, Reason, SendId, Status, Timestamp};
use operations::explain::{self, Explained, ExplainedSends, Explanation, Now, Person};
use operations::people::{self as cases, MaskedPerson, PersonDetails, PersonTarget};
use operations::requests::SendFilter;
use operations::users::{self, UserFilter};
use operations::{Object, OperationError, suppressions};
use serde::Serialize;
use store::deliveries::suppression::{RestoreResult, Suppression, SuppressionFilter, SuppressionPosition};
use utoipa::ToSchema;
use web::cursor;
use web::failure::Failure;
use web::query::Query;
use web::vocabulary::{self, Count, Time};

use super::call::{Answer, Call, channel, limit, time};
use super::route::Nothing;
use super::sends::{SendBody, send_of_query};
use super::shape::{Page, UsedTemplate};

/// Sends of an explanation if the caller names no limit, and at most.
const EXPLAINED: (i64, i64) = (10, 50);

/// A person, with masked targets.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Person)]
pub(super) struct PersonBody {
    /// Number in the audit log.
    number: String,
    /// Masked if it is an address and the token may not see users.
    identifier: String,
    /// Address in the profile, masked.
    email: Option<String>,
    /// Number in the profile, masked.
    phone_number: Option<String>,
    /// Number of devices.
    #[schema(value_type = Count)]
    devices: usize,
    targets: Vec<TargetBody>,
    /// Names of the profile's other attributes.
    attributes: Vec<String>,
    #[schema(value_type = Time)]
    created_at: Timestamp,
}

/// A target of a person, masked.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Target)]
struct TargetBody {
    #[schema(value_type = vocabulary::Channel)]
    channel: Channel,
    target: String,
    /// Null if the target is used, or in a list of people.
    suppression: Option<TargetSuppressionBody>,
}

/// Why Tidings does not call a target.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TargetSuppression)]
struct TargetSuppressionBody {
    /// Delivery that led to the suppression, by which it is lifted.
    #[schema(value_type = vocabulary::Uuid)]
    delivery_id: domain::DeliveryId,
    code: String,
    #[schema(value_type = Time)]
    since: Timestamp,
    /// True if the suppression removed the target from the person.
    removed: bool,
}

/// A person with devices and counts.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ShownPerson {
    person: PersonBody,
    targets: Vec<TargetBody>,
    devices: Vec<DeviceBody>,
    /// Identifiers of topics to which the person subscribes, at most 50.
    topics: Vec<String>,
    #[schema(value_type = Count)]
    inbox_items: i64,
    #[schema(value_type = Count)]
    unread_items: i64,
}

/// A device of a person.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Device)]
struct DeviceBody {
    device_id: String,
    #[schema(value_type = Time)]
    connected_at: Timestamp,
    /// True if the device has a usable subscription for web push.
    web_push: bool,
}

/// Why a person got a notification or did not.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Explanation)]
pub(super) struct ExplanationBody {
    /// One or a few sentences that answer the question.
    verdict: String,
    /// Null if the person was erased.
    person: Option<String>,
    /// Name in the profile; null if the token may not see users.
    name: Option<String>,
    /// The send that the call names; null if it is not planned yet.
    request: Option<ExplainedRequestBody>,
    channels: Vec<ChannelStoryBody>,
    events: Vec<EventBody>,
    /// The latest sends to the person, unless the call names one.
    sends: Vec<ExplainedSendBody>,
    /// Outcome of a send now; null unless the call asks for it.
    now: Option<Vec<NowBody>>,
    /// Category of the send in `now`.
    now_category: Option<String>,
    next_cursor: Option<String>,
}

/// A send that is explained.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ExplainedRequest)]
struct ExplainedRequestBody {
    #[schema(value_type = vocabulary::Uuid)]
    request_id: SendId,
    title: Option<String>,
    category: Option<String>,
    template: Option<UsedTemplate>,
    #[schema(value_type = Time)]
    accepted_at: Timestamp,
    #[schema(value_type = Option<Time>)]
    send_at: Option<Timestamp>,
    #[schema(value_type = Option<Time>)]
    expires_at: Option<Timestamp>,
    #[schema(value_type = Option<Time>)]
    cancelled_at: Option<Timestamp>,
}

/// Outcome of a send on one channel.
#[derive(Serialize, ToSchema)]
#[schema(as = ChannelStory)]
struct ChannelStoryBody {
    #[schema(value_type = vocabulary::Channel)]
    channel: Channel,
    #[schema(value_type = vocabulary::Status)]
    status: Status,
    #[schema(value_type = Option<vocabulary::Reason>)]
    reason: Option<Reason>,
    sentence: String,
    /// Remedy; null if there is nothing to do.
    fix: Option<String>,
    /// Command or call of the remedy.
    action: Option<String>,
    /// Place in the documentation.
    documentation: String,
}

/// A step of a send.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StoryEvent)]
struct EventBody {
    #[schema(value_type = Time)]
    at: Timestamp,
    kind: &'static str,
    #[schema(value_type = Option<vocabulary::Channel>)]
    channel: Option<Channel>,
    text: String,
    /// Milliseconds since the step before it.
    waited_ms: Option<u64>,
    /// Milliseconds that a call took.
    took_ms: Option<u64>,
}

/// A send to a person, with its verdict.
#[derive(Serialize, ToSchema)]
#[schema(as = ExplainedSend)]
struct ExplainedSendBody {
    send: SendBody,
    verdict: String,
}

/// Outcome of a send now on a channel.
#[derive(Serialize, ToSchema)]
#[schema(as = NowChannel)]
struct NowBody {
    #[schema(value_type = vocabulary::Channel)]
    channel: Channel,
    sends: bool,
    #[schema(value_type = Option<vocabulary::Reason>)]
    reason: Option<Reason>,
}

/// A suppressed target.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Suppression)]
pub(super) struct SuppressionBody {
    app_id: String,
    app: String,
    #[schema(value_type = vocabulary::Channel)]
    channel: Channel,
    /// Masked.
    target: String,
    code: String,
    #[schema(value_type = Time)]
    since: Timestamp,
    #[schema(value_type = vocabulary::Uuid)]
    delivery_id: domain::DeliveryId,
}

impl From<MaskedPerson> for PersonBody {
    fn from(person: MaskedPerson) -> PersonBody {
        let target = |(channel, target)| TargetBody { channel, target, suppression: None };
        PersonBody {
            number: person.number.to_string(),
            identifier: person.shown,
            email: person.email,
            phone_number: person.phone_number,
            devices: person.devices,
            targets: person.targets.into_iter().map(target).collect(),
            attributes: person.attributes,
            created_at: person.created_at,
        }
    }
}

impl From<PersonTarget> for TargetBody {
    fn from(target: PersonTarget) -> TargetBody {
        let suppression = target.suppressed.map(|suppressed| TargetSuppressionBody {
            delivery_id: suppressed.delivery,
            code: suppressed.code,
            since: suppressed.at,
            removed: suppressed.removed,
        });
        TargetBody { channel: target.channel, target: target.target, suppression }
    }
}

impl From<PersonDetails> for ShownPerson {
    fn from(details: PersonDetails) -> ShownPerson {
        let devices = details.devices.into_iter().map(|device| DeviceBody {
            device_id: device.device_id,
            connected_at: device.connected_at,
            web_push: device.web_push,
        });
        ShownPerson {
            person: details.person.into(),
            targets: details.targets.into_iter().map(TargetBody::from).collect(),
            devices: devices.collect(),
            topics: details.topics.into_iter().map(|topic| topic.identifier).collect(),
            inbox_items: details.inbox.0,
            unread_items: details.inbox.1,
        }
    }
}

impl From<Suppression> for SuppressionBody {
    fn from(found: Suppression) -> SuppressionBody {
        SuppressionBody {
            app_id: found.app.to_string(),
            app: found.app_name,
            channel: found.channel,
            target: found.target,
            code: found.code,
            since: found.at,
            delivery_id: found.delivery,
        }
    }
}

/// Reads what people are searched for. The parameters exclude each other.
fn search(query: &Query, problems: &mut Vec<Problem>) -> [Option<String>; 3] {
    let found = ["email", "phoneNumber", "q"].map(|name| query.filter(name, problems));
    if found.iter().flatten().count() > 1 {
        let message = "email, phoneNumber and q exclude each other";
        problems.push(Problem::new("q", "conflicting", message));
    }
    found
}

pub(super) async fn list(call: &Call<'_>) -> Answer<Page<PersonBody>> {
    let app = call.app()?.id;
    let (searched, limit) =
        call.query(|query, problems| (search(query, problems), limit(query, problems)))?;
    let filter = match &searched {
        [Some(email), ..] => UserFilter::Email(email),
        [_, Some(number), _] => UserFilter::PhoneNumber(number),
        [.., Some(start)] => UserFilter::Start(start),
        _ => UserFilter::All,
    };
    let after = call.query(|query, problems| cursor::read(query, |text| filter.place(text), problems))?;
    let (people, next) = cases::list(call.operations(), &call.caller, app, filter, after, limit).await?;
    Ok(Page::new(people, next))
}

pub(super) async fn show(call: &Call<'_>) -> Answer<ShownPerson> {
    let app = call.app()?.id;
    Ok(cases::find(call.operations(), &call.caller, app, call.path("person")).await?.into())
}

pub(super) async fn erase(call: &Call<'_>) -> Answer<Nothing> {
    let (app, partitions) = (call.app()?.id, call.console.partitions);
    users::erase(call.operations(), &call.caller, app, call.path("person"), partitions).await?;
    Ok(Nothing {})
}

struct Question {
    person: String,
    request: Option<SendId>,
    category: Option<String>,
    since: Option<Timestamp>,
    before: Option<SendId>,
    limit: usize,
    now: Option<bool>,
    sends: Option<bool>,
}

fn question(query: &Query, problems: &mut Vec<Problem>) -> Question {
    let person = query.filter("person", problems);
    if person.is_none() && problems.is_empty() {
        let message = "person is required: the identifier of the person";
        problems.push(Problem::new("person", "required", message));
    }
    let limit = query.number("limit", 1..=EXPLAINED.1, problems).unwrap_or(EXPLAINED.0);
    Question {
        person: person.unwrap_or_default(),
        request: send_of_query(query, problems),
        category: query.filter("category", problems),
        since: time(query, "since", problems),
        before: cursor::read(query, |text| text.parse().ok().map(SendId), problems),
        limit: usize::try_from(limit).unwrap_or(0),
        now: query.flag("now", problems),
        sends: query.flag("sends", problems),
    }
}

pub(super) async fn explain(call: &Call<'_>) -> Answer<ExplanationBody> {
    let app = call.app()?.id;
    let asked = call.query(question)?;
    let (operations, caller, person) = (call.operations(), &call.caller, asked.person.as_str());
    if let Some(send) = asked.request {
        let now = asked.now.unwrap_or(true);
        let found = explain::request(operations, caller, app, person, send, now).await?;
        return known(found, |found| one(send, found));
    }
    let category = asked.category.as_deref();
    let filter = SendFilter { category, since: asked.since, before: asked.before, ..SendFilter::default() };
    let now = asked.now.unwrap_or(false);
    let limit = if asked.sends == Some(false) { 0 } else { asked.limit };
    let found = explain::latest(operations, caller, app, person, filter, limit, now).await?;
    known(found, latest)
}

fn known<T>(found: Explained<T>, present: impl FnOnce(T) -> ExplanationBody) -> Answer<ExplanationBody> {
    match found {
        Explained::Found(found) => Ok(present(*found)),
        Explained::Erased => Ok(empty("The user was erased.".to_owned(), None)),
        Explained::UnknownUser { similar } if similar.is_empty() => {
            Err(OperationError::NotFound(Object::User).into())
        }
        Explained::UnknownUser { similar } => {
            let message = format!("no such user; similar identifiers: {}", similar.join(", "));
            Err(Failure::refused(actix_web::http::StatusCode::NOT_FOUND, "not_found", message).into())
        }
    }
}

fn empty(verdict: String, person: Option<Person>) -> ExplanationBody {
    let (person, name) = person.map_or((None, None), |person| (Some(person.identifier), person.name));
    let (channels, events, sends) = (Vec::new(), Vec::new(), Vec::new());
    let (request, now, now_category, next_cursor) = (None, None, None, None);
    ExplanationBody {
        verdict,
        person,
        name,
        request,
        channels,
        events,
        sends,
        now,
        now_category,
        next_cursor,
    }
}

fn one(send: SendId, found: Explanation) -> ExplanationBody {
    let mut body = empty(found.verdict, Some(found.person));
    body.now_category = found.now.as_ref().and_then(|now| now.category.clone());
    body.now = found.now.map(now);
    body.request = found.request.map(|stored| ExplainedRequestBody {
        request_id: send,
        title: stored.title,
        category: stored.category,
        template: stored.template.map(UsedTemplate::from),
        accepted_at: stored.accepted_at,
        send_at: stored.send_at,
        expires_at: stored.expires_at,
        cancelled_at: stored.cancelled_at,
    });
    let Some(story) = found.story else { return body };
    let channels = story.channels.into_iter().map(|channel| ChannelStoryBody {
        channel: channel.channel,
        status: channel.status,
        reason: channel.reason,
        sentence: channel.sentence,
        action: channel.fix.as_ref().and_then(|fix| fix.action.clone()),
        fix: channel.fix.map(|fix| fix.text),
        documentation: format!("statuses.md#{}", channel.anchor),
    });
    let events = story.events.into_iter().map(|event| EventBody {
        at: event.at,
        kind: event.kind.as_str(),
        channel: event.channel,
        text: event.text,
        waited_ms: event.waited_ms,
        took_ms: event.took_ms,
    });
    (body.channels, body.events) = (channels.collect(), events.collect());
    body
}

fn latest(found: ExplainedSends) -> ExplanationBody {
    let verdict = match (&found.now, found.sends.first()) {
        (_, Some(last)) => format!("The latest of these sends: {}", last.verdict),
        (Some(now), None) => now.line(),
        (None, None) => found.none_matches(),
    };
    let mut body = empty(verdict, Some(found.person));
    body.now_category = found.now.as_ref().and_then(|now| now.category.clone());
    let sends = found.sends.into_iter();
    body.sends = sends
        .map(|explained| ExplainedSendBody { send: explained.send.into(), verdict: explained.verdict })
        .collect();
    body.now = found.now.map(now);
    body.next_cursor = found.next.map(cursor::write);
    body
}

fn now(now: Now) -> Vec<NowBody> {
    let channels = now.channels.into_iter();
    channels
        .map(|decided| NowBody {
            channel: decided.channel,
            sends: decided.reason.is_none(),
            reason: decided.reason,
        })
        .collect()
}

pub(super) async fn list_suppressions(call: &Call<'_>) -> Answer<Page<SuppressionBody>> {
    let app = call.app_of_query().await?;
    let (channel, after, limit) = call.query(|query, problems| {
        let after = cursor::read(query, SuppressionPosition::parse, problems);
        (channel(query, problems), after, limit(query, problems))
    })?;
    let filter = SuppressionFilter { app, channel, after };
    let most = i64::try_from(limit).unwrap_or(i64::MAX);
    let found = suppressions::list(call.operations(), &call.caller, filter, most, false).await?;
    let next = found.last().filter(|_| found.len() == limit).map(|last| last.position);
    Ok(Page::new(found, next))
}

/// A suppression that was lifted.
#[derive(Serialize, ToSchema)]
pub(super) struct LiftedSuppression {
    /// Masked.
    target: String,
    /// `nothing`, `token`, `subscription` or `notNeeded`.
    restored: &'static str,
    /// Number of people who have a token again.
    #[schema(value_type = Count)]
    users: usize,
}

pub(super) async fn lift_suppression(call: &Call<'_>) -> Answer<LiftedSuppression> {
    let (app, target) = (call.app()?.id, call.path("delivery"));
    let channel = Channel::EXTERNAL.into_iter().find(|channel| channel.as_str() == call.path("channel"));
    let channel =
        channel.ok_or_else(|| Failure::problem("channel", "unknown_value", "channel has no targets"))?;
    let lifted = suppressions::lift(call.operations(), &call.caller, app, channel, target).await?;
    let users = if let RestoreResult::Token(users) = lifted.restored { users } else { 0 };
    Ok(LiftedSuppression { target: masked(&lifted.target), restored: lifted.restored.as_str(), users })
}
