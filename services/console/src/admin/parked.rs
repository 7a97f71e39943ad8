//! Parked messages, and the redrives that the dispatcher makes.

use domain::body::kind::{AnyText, Time as TimeMember, Whole};
use domain::body::words::OneOf;
use domain::redrive::{RunState, Skip};
use domain::target::masked;
use domain::{AppId, Channel, DeliveryId, Problem, SendId, Timestamp};
use operations::Caller;
use operations::parked::{self as cases, ParkedKind};
use operations::people::shown_identifier;
use operations::redrives::{self, LARGE, MOST_SELECTED, NewRedrive, RATES, RedrivePreview};
use serde::Serialize;
use serde_json::{Map, Value};
use store::deliveries::redrive::run::RedriveRun;
use store::deliveries::redrive::{ParkedEntry, ParkedFilter, ParkedPosition, position_after};
use utoipa::ToSchema;
use uuid::Uuid;
use web::cursor;
use web::query::Query;
use web::vocabulary::{self, Count, FreeObject, Time};

use super::call::{self, Answer, Call, channel, limit, time};
use super::sends::AttemptBody;
use super::shape::Page;

/// Redrives in a list.
const RUNS: i64 = 100;

/// A parked message.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ParkedMessage)]
pub(super) struct ParkedBody {
    #[schema(value_type = vocabulary::Uuid)]
    id: Uuid,
    app_id: Option<String>,
    app: Option<String>,
    /// A channel, `send` or `unknown`.
    kind: String,
    #[schema(value_type = Option<vocabulary::Uuid>)]
    request_id: Option<SendId>,
    #[schema(value_type = Option<vocabulary::Uuid>)]
    delivery_id: Option<DeliveryId>,
    /// Masked if it is an address and the token may not see users.
    recipient: Option<String>,
    /// Masked.
    target: Option<String>,
    /// Code of the provider's last answer, or the error that occurred.
    cause: String,
    #[schema(value_type = Time)]
    parked_at: Timestamp,
    /// Reason why a redrive would leave the message parked; null if it would not.
    skip: Option<&'static str>,
}

/// A parked message with the attempts to make its delivery.
#[derive(Serialize, ToSchema)]
pub(super) struct ShownParked {
    message: ParkedBody,
    attempts: Vec<AttemptBody>,
}

/// Preview of a redrive.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RedrivePreview)]
pub(super) struct PreviewBody {
    /// Moment of the preview. A redrive takes nothing that is parked at this time or later.
    #[schema(value_type = Time)]
    at: Timestamp,
    /// Messages that would be redriven.
    #[schema(value_type = Count)]
    expected: u64,
    /// Messages that would be redriven, by kind.
    #[schema(value_type = FreeObject)]
    messages: Value,
    #[schema(value_type = Count)]
    people: u64,
    /// Messages that would stay parked, by reason.
    #[schema(value_type = FreeObject)]
    stay: Value,
    /// The first messages that would be redriven, at most 20.
    first: Vec<ParkedBody>,
    /// True if the filter selects more than 100,000 messages, so that it must be narrowed.
    cut: bool,
}

/// A redrive.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Redrive)]
pub(super) struct RedriveBody {
    id: String,
    #[schema(value_type = super::shape::RedriveState)]
    state: RunState,
    /// Reason why the redrive paused itself.
    pause: Option<&'static str>,
    #[schema(value_type = Count)]
    selected: i64,
    #[schema(value_type = Count)]
    expected: i64,
    #[schema(value_type = Count)]
    redriven: i64,
    /// Numbers of messages that stay parked, by reason.
    #[schema(value_type = FreeObject)]
    skipped: Value,
    per_second: i32,
    created_by: String,
    #[schema(value_type = Time)]
    created_at: Timestamp,
    #[schema(value_type = Option<Time>)]
    ended_at: Option<Timestamp>,
}

domain::body! {
    /// A selection of parked messages. Members that are not given select all.
    pub(super) struct ParkedSelection {
        optional channel: OneOf<Channel>,
        /// Last provider of the delivery.
        optional provider: AnyText,
        /// Code of the provider's last answer.
        optional cause: AnyText,
        optional category: AnyText,
        optional delivery_id as "deliveryId": AnyText,
        /// Only messages parked at this time or later.
        optional since: TimeMember,
        /// Only messages parked before this time.
        optional before: TimeMember,
    }
    example {"channel": "email", "cause": "535"}
}

domain::body! {
    /// A redrive to start, after a preview of the same selection.
    pub(super) struct NewRedriveBody as "NewRedrive" {
        required selection: domain::body::kind::Nested<ParkedSelection>,
        /// The member `at` of the preview, at most 15 minutes old.
        required previewed_at as "previewedAt": TimeMember,
        /// The member `expected` of the preview.
        required expected: Whole,
        /// The same number again. Required if it is above 1,000.
        optional confirm: Whole,
        /// Messages per second, from 1 to 1,000. Default: 50.
        optional per_second as "perSecond": Whole,
    }
    example {"selection": {"channel": "email", "cause": "535"}, "previewedAt": "2027-01-31T09:00:00.000Z", "expected": 12}
}

fn parked(caller: &Caller, parked: ParkedEntry) -> ParkedBody {
    let shown = |recipient: &String| match parked.app {
        Some(app) => shown_identifier(caller, app, recipient),
        None => masked(recipient),
    };
    ParkedBody {
        id: parked.id,
        app_id: parked.app.map(|app| app.to_string()),
        kind: ParkedKind::of(&parked).to_string(),
        request_id: parked.send_id,
        delivery_id: parked.delivery,
        recipient: parked.recipient.as_ref().map(shown),
        target: parked.target.as_deref().map(masked),
        parked_at: parked.parked_at,
        skip: parked.skip.map(Skip::as_str),
        app: parked.app_name,
        cause: parked.cause,
    }
}

impl From<RedriveRun> for RedriveBody {
    fn from(run: RedriveRun) -> RedriveBody {
        let skipped: Map<String, Value> =
            run.skipped.into_iter().map(|(reason, number)| (reason, number.into())).collect();
        RedriveBody {
            id: run.id.to_string(),
            state: run.state,
            pause: run.pause.map(|(pause, _)| pause.as_str()),
            selected: run.selected,
            expected: run.expected,
            redriven: run.redriven,
            skipped: skipped.into(),
            per_second: run.per_second,
            created_by: run.created_by,
            created_at: run.created_at,
            ended_at: run.ended_at,
        }
    }
}

fn filter_of(query: &Query, app: Option<AppId>, problems: &mut Vec<Problem>) -> ParkedFilter {
    ParkedFilter {
        app,
        channel: channel(query, problems),
        provider: query.filter("provider", problems),
        cause: query.filter("cause", problems),
        category: query.filter("category", problems),
        delivery: call::uuid(query, "delivery", problems).map(DeliveryId),
        id: None,
        since: time(query, "since", problems),
        before: time(query, "before", problems),
    }
}

pub(super) async fn list(call: &Call<'_>) -> Answer<Page<ParkedBody>> {
    let app = call.app_of_query().await?;
    let (filter, after, limit) = call.query(|query, problems| {
        let after = cursor::read(query, ParkedPosition::parse, problems);
        (filter_of(query, app, problems), after, limit(query, problems))
    })?;
    let most = i64::try_from(limit).unwrap_or(i64::MAX);
    let found = cases::list(call.operations(), &call.caller, &filter, after, most).await?;
    let next = position_after(&found).filter(|_| found.len() == limit);
    Ok(Page::new(found.into_iter().map(|entry| parked(&call.caller, entry)), next))
}

pub(super) async fn show(call: &Call<'_>) -> Answer<ShownParked> {
    let found = cases::find(call.operations(), &call.caller, call.uuid("message")?).await?;
    let attempts = found.attempts.into_iter().map(AttemptBody::from).collect();
    Ok(ShownParked { message: parked(&call.caller, found.parked), attempts })
}

fn selection(selection: &mut ParkedSelection, app: AppId, problems: &mut Vec<Problem>) -> ParkedFilter {
    let given = selection.delivery_id(problems);
    let delivery = given.as_ref().and_then(|id| id.parse().ok()).map(DeliveryId);
    if given.is_some() && delivery.is_none() {
        problems.push(Problem::new("deliveryId", "invalid_id", "deliveryId must be a UUID"));
    }
    ParkedFilter {
        app: Some(app),
        channel: selection.channel(problems),
        provider: selection.provider(problems),
        cause: selection.cause(problems),
        category: selection.category(problems),
        delivery,
        id: None,
        since: selection.since(problems),
        before: selection.before(problems),
    }
}

pub(super) async fn preview(call: &Call<'_>) -> Answer<PreviewBody> {
    let app = call.app()?.id;
    let filter = call.body(|body: &mut ParkedSelection, problems| Some(selection(body, app, problems)))?;
    let preview = redrives::preview(call.operations(), &call.caller, app, &filter, |_| ()).await?;
    Ok(preview_body(&call.caller, preview))
}

fn preview_body(caller: &Caller, preview: RedrivePreview) -> PreviewBody {
    let expected = preview.expected();
    let messages = preview.messages.iter().map(|(kind, number)| (kind.to_string(), Value::from(*number)));
    let stay = preview.stay.iter().map(|(skip, number)| (skip.to_string(), Value::from(*number)));
    PreviewBody {
        at: preview.at,
        expected,
        messages: Value::Object(messages.collect()),
        people: preview.people,
        stay: Value::Object(stay.collect()),
        first: preview.first.into_iter().map(|entry| parked(caller, entry)).collect(),
        cut: preview.is_cut,
    }
}

/// Members of the body of a redrive to start.
struct Wanted {
    filter: ParkedFilter,
    previewed_at: Timestamp,
    expected: u64,
    confirm: Option<u64>,
    per_second: u32,
}

fn wanted(body: &mut NewRedriveBody, app: AppId, problems: &mut Vec<Problem>) -> Option<Wanted> {
    let nested = body.selection(problems);
    let filter = nested.map(|mut nested| {
        let filter = selection(&mut nested, app, problems);
        domain::body::Body::into_fields(nested).finish(true, problems);
        filter
    });
    let previewed_at = body.previewed_at(problems);
    let expected = body.expected(problems).map(|number| u64::try_from(number).unwrap_or(u64::MAX));
    let confirm = body.confirm(problems).map(|number| u64::try_from(number).unwrap_or(u64::MAX));
    let per_second = body.per_second(problems).map_or(RATES.1, |rate| u32::try_from(rate).unwrap_or(0));
    if expected.is_some_and(|expected| expected > LARGE && confirm != Some(expected)) {
        let message =
            format!("confirm must be the same number as expected if more than {LARGE} messages are redriven");
        problems.push(Problem::new("confirm", "confirmation_required", message));
    }
    if expected.is_some_and(|expected| expected > MOST_SELECTED) {
        let message = format!("expected must be at most {MOST_SELECTED}");
        problems.push(Problem::new("expected", "out_of_range", message));
    }
    Some(Wanted { filter: filter?, previewed_at: previewed_at?, expected: expected?, confirm, per_second })
}

pub(super) async fn start(call: &Call<'_>) -> Answer<RedriveBody> {
    let app = call.app()?.id;
    let wanted = call.body(|body: &mut NewRedriveBody, problems| wanted(body, app, problems))?;
    let new = NewRedrive {
        app,
        filter: &wanted.filter,
        previewed_at: wanted.previewed_at,
        per_second: wanted.per_second,
        expected: wanted.expected,
        typed: wanted.confirm,
        // A program has no password. Its token is the confirmation.
        is_confirmed: true,
    };
    let id = redrives::start(call.operations(), &call.caller, &new).await?;
    Ok(redrives::find(call.operations(), &call.caller, app, id).await?.into())
}

pub(super) async fn list_redrives(call: &Call<'_>) -> Answer<Page<RedriveBody>> {
    let app = call.app()?.id;
    Ok(Page::whole(redrives::list(call.operations(), &call.caller, app, RUNS).await?))
}

pub(super) async fn show_redrive(call: &Call<'_>) -> Answer<RedriveBody> {
    let (app, id) = (call.app()?.id, call.number("redrive")?);
    Ok(redrives::find(call.operations(), &call.caller, app, id).await?.into())
}

async fn change(call: &Call<'_>, to: RunState) -> Answer<RedriveBody> {
    let (app, id) = (call.app()?.id, call.number("redrive")?);
    redrives::change(call.operations(), &call.caller, app, id, to).await?;
    Ok(redrives::find(call.operations(), &call.caller, app, id).await?.into())
}

pub(super) async fn pause(call: &Call<'_>) -> Answer<RedriveBody> {
    change(call, RunState::Paused).await
}

pub(super) async fn resume(call: &Call<'_>) -> Answer<RedriveBody> {
    change(call, RunState::Running).await
}

pub(super) async fn stop(call: &Call<'_>) -> Answer<RedriveBody> {
    change(call, RunState::Stopped).await
}
