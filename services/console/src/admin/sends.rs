//! The sends of an app, and what became of them.

use domain::target::masked;
use domain::{AppId, Channel, DeliveryId, Reason, SendId, Status, Timestamp};
use operations::Caller;
use operations::people::shown_identifier;
use operations::requests::{self, SendFilter};
use operations::sends::recent;
use serde::Serialize;
use serde_json::{Map, Value};
use store::sends::list::ListedSend;
use store::sends::pairs::{AttemptRecord, PairFilter, PairPosition, PairStatus};
use store::sends::status::RequestSummary;
use utoipa::ToSchema;
use uuid::Uuid;
use web::cursor;
use web::vocabulary::{self, Count, FreeObject, Time};

use super::call::{self, Answer, Call, limit, time};
use super::shape::{ChangedBody, Page, UsedTemplate};

/// A send of an app.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Request)]
pub(super) struct SendBody {
    #[schema(value_type = vocabulary::Uuid)]
    request_id: SendId,
    /// Title of the send itself; null if it has none.
    title: Option<String>,
    category: Option<String>,
    template: Option<UsedTemplate>,
    /// Number of recipients that are known so far.
    recipients: i32,
    cancelled: bool,
    #[schema(value_type = Time)]
    accepted_at: Timestamp,
    #[schema(value_type = Option<Time>)]
    send_at: Option<Timestamp>,
}

/// The state of a send.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct RequestState {
    #[schema(value_type = vocabulary::Uuid)]
    request_id: SendId,
    /// Null if the send is parked before it was planned.
    send: Option<SendBody>,
    #[schema(value_type = Time)]
    accepted_at: Timestamp,
    recipients: i32,
    /// Recipients that have been planned.
    planned: i64,
    /// True if further subscribers of topics may follow.
    expanding: bool,
    cancelled: bool,
    /// True if a message of the send is parked.
    parked: bool,
    /// Numbers of deliveries by channel and status.
    #[schema(value_type = FreeObject)]
    counts: Value,
}

/// Status of a send for one recipient on one channel.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Delivery)]
pub(super) struct DeliveryBody {
    /// Null for inbox items and for skipped deliveries.
    #[schema(value_type = Option<vocabulary::Uuid>)]
    id: Option<DeliveryId>,
    /// Masked if it is an address and the token may not see users; null if the user was erased.
    recipient: Option<String>,
    #[schema(value_type = vocabulary::Channel)]
    channel: Channel,
    /// Masked.
    target: Option<String>,
    provider: Option<String>,
    #[schema(value_type = vocabulary::Status)]
    status: Status,
    #[schema(value_type = Option<vocabulary::Reason>)]
    reason: Option<Reason>,
    #[schema(value_type = Option<Time>)]
    next_attempt_at: Option<Timestamp>,
    #[schema(value_type = Option<Time>)]
    settled_at: Option<Timestamp>,
    attempts: Vec<AttemptBody>,
}

/// One provider call for a delivery, and the provider's answer.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Attempt)]
pub(super) struct AttemptBody {
    number: i32,
    #[schema(value_type = Time)]
    started_at: Timestamp,
    provider: Option<String>,
    outcome: String,
    provider_code: String,
    /// The provider's own words.
    provider_message: String,
}

/// Deliveries and recipients that a cancellation stopped.
pub(super) type Cancelled = ChangedBody;

impl From<ListedSend> for SendBody {
    fn from(send: ListedSend) -> SendBody {
        SendBody {
            request_id: send.send_id,
            title: send.title,
            category: send.category,
            template: send.template.map(UsedTemplate::from),
            recipients: send.recipients,
            cancelled: send.cancelled,
            accepted_at: send.accepted_at,
            send_at: send.send_at,
        }
    }
}

impl From<AttemptRecord> for AttemptBody {
    fn from(attempt: AttemptRecord) -> AttemptBody {
        AttemptBody {
            number: attempt.number,
            started_at: attempt.started_at,
            provider: attempt.provider,
            outcome: attempt.outcome,
            provider_code: attempt.provider_code,
            provider_message: attempt.provider_message,
        }
    }
}

fn delivery(caller: &Caller, app: AppId, pair: PairStatus) -> DeliveryBody {
    let wait = pair.wait;
    DeliveryBody {
        id: pair.id,
        recipient: pair.recipient.map(|recipient| shown_identifier(caller, app, &recipient)),
        channel: pair.position.channel,
        target: pair.target.as_deref().map(masked),
        provider: wait.as_ref().and_then(|wait| wait.provider.clone()).or(pair.provider),
        status: pair.status,
        reason: pair.reason,
        next_attempt_at: wait.map(|wait| wait.next_attempt_at),
        settled_at: pair.settled_at,
        attempts: pair.attempts.into_iter().map(AttemptBody::from).collect(),
    }
}

pub(super) async fn list(call: &Call<'_>) -> Answer<Page<SendBody>> {
    let app = call.app()?.id;
    let ((recipient, category), status, since, before, limit) = call.query(|query, problems| {
        let texts = (query.filter("recipient", problems), query.filter("category", problems));
        let statuses: Vec<_> = Status::ALL.iter().map(|status| (status.as_str(), *status)).collect();
        let status = query.one_of("status", &statuses, problems);
        let since = time(query, "since", problems);
        let before = cursor::read(query, |text| text.parse().ok().map(SendId), problems);
        (texts, status, since, before, limit(query, problems))
    })?;
    let (recipient, category) = (recipient.as_deref(), category.as_deref());
    let filter = SendFilter { recipient, category, status, since, before };
    let page = requests::list(call.operations(), &call.caller, app, filter, limit).await?;
    Ok(Page::new(page.sends, page.next))
}

pub(super) async fn show(call: &Call<'_>) -> Answer<RequestState> {
    let (app, id) = (call.app()?.id, SendId(call.uuid("request")?));
    let (summary, send) = recent::find(call.operations(), &call.caller, app, id).await?;
    Ok(state(id, &summary, send))
}

fn state(request_id: SendId, summary: &RequestSummary, send: Option<ListedSend>) -> RequestState {
    let counts = summary.counts.iter().map(|(channel, counts)| {
        let counts = counts.iter().map(|(status, number)| (status.to_string(), Value::from(*number)));
        (channel.to_string(), Value::Object(counts.collect()))
    });
    RequestState {
        request_id,
        send: send.map(SendBody::from),
        accepted_at: summary.accepted_at,
        recipients: summary.recipients,
        planned: summary.planned,
        expanding: summary.expanding,
        cancelled: summary.cancelled,
        parked: summary.parked,
        counts: Value::Object(counts.collect::<Map<_, _>>()),
    }
}

pub(super) async fn deliveries(call: &Call<'_>) -> Answer<Page<DeliveryBody>> {
    let (app, send) = (call.app()?.id, SendId(call.uuid("request")?));
    let (recipient, channel, status, after, limit) = call.query(|query, problems| {
        let channels: Vec<_> = Channel::ALL.iter().map(|channel| (channel.as_str(), *channel)).collect();
        let statuses: Vec<_> = Status::ALL.iter().map(|status| (status.as_str(), *status)).collect();
        let recipient = query.filter("recipient", problems);
        let channel = query.one_of("channel", &channels, problems);
        let status = query.one_of("status", &statuses, problems);
        (recipient, channel, status, cursor::read(query, position, problems), limit(query, problems))
    })?;
    let filter = PairFilter { recipient: recipient.as_deref(), channel, status, recipient_index: None };
    let (operations, caller) = (call.operations(), &call.caller);
    // The list of an unknown send would be empty.
    recent::find(operations, caller, app, send).await?;
    let (pairs, next) = recent::pairs(operations, caller, (app, send), filter, after, limit).await?;
    let pairs = pairs.into_iter().map(|pair| delivery(caller, app, pair));
    Ok(Page::new(pairs, next.map(place)))
}

fn place(position: PairPosition) -> String {
    format!("{} {} {}", position.recipient_index, position.channel, position.id)
}

fn position(text: &str) -> Option<PairPosition> {
    let mut parts = text.split(' ');
    let (index, channel, id) = (parts.next()?, parts.next()?, parts.next()?);
    let (recipient_index, channel, id) =
        (index.parse().ok()?, channel.parse().ok()?, id.parse::<Uuid>().ok()?);
    parts.next().is_none().then_some(PairPosition { recipient_index, channel, id })
}

pub(super) async fn cancel(call: &Call<'_>) -> Answer<Cancelled> {
    let (app, id) = (call.app()?.id, SendId(call.uuid("request")?));
    let changed = requests::cancel(call.operations(), &call.caller, app, id).await?;
    Ok(ChangedBody { changed })
}

/// A group of deliveries that wait for the same cause.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WaitingGroup)]
pub(super) struct WaitingBody {
    app_id: String,
    app: String,
    #[schema(value_type = vocabulary::Channel)]
    channel: Channel,
    #[schema(value_type = vocabulary::Reason)]
    reason: Reason,
    provider: Option<String>,
    code: Option<String>,
    #[schema(value_type = Count)]
    deliveries: i64,
    #[schema(value_type = Option<Time>)]
    earliest_accepted_at: Option<Timestamp>,
    #[schema(value_type = Time)]
    next_attempt_at: Timestamp,
}

domain::body! {
    /// The cause for which deliveries wait, as the list of waiting deliveries shows it.
    pub(super) struct WaitingCauseBody as "WaitingCause" {
        required channel: domain::body::words::OneOf<Channel>,
        required reason: domain::body::words::OneOf<Reason>,
        optional provider: domain::body::kind::AnyText,
        optional code: domain::body::kind::AnyText,
    }
    example {"channel": "email", "reason": "breaker_open", "provider": "main", "code": "421"}
}

pub(super) async fn waiting(call: &Call<'_>) -> Answer<Page<WaitingBody>> {
    let app = call.app_of_query().await?;
    let groups = requests::waiting(call.operations(), &call.caller, app).await?;
    let groups = groups.into_iter().map(|group| WaitingBody {
        app_id: group.app.to_string(),
        channel: group.channel,
        reason: group.reason,
        deliveries: group.deliveries,
        earliest_accepted_at: group.earliest_accepted_at(),
        next_attempt_at: group.next_attempt_at,
        app: group.app_name,
        provider: group.provider,
        code: group.code,
    });
    Ok(Page::whole(groups))
}

pub(super) async fn release(call: &Call<'_>) -> Answer<ChangedBody> {
    let app = call.app()?.id;
    let cause = call.body(|body: &mut WaitingCauseBody, problems| {
        let (channel, reason) = (body.channel(problems), body.reason(problems));
        let (provider, code) = (body.provider(problems), body.code(problems));
        Some(store::deliveries::waiting::WaitingCause { channel: channel?, reason: reason?, provider, code })
    })?;
    let changed = requests::release(call.operations(), &call.caller, app, &cause).await?;
    Ok(ChangedBody { changed })
}

/// Reads the id of a send from the query.
pub(super) fn send_of_query(
    query: &web::query::Query,
    problems: &mut Vec<domain::Problem>,
) -> Option<SendId> {
    call::uuid(query, "request", problems).map(SendId)
}
