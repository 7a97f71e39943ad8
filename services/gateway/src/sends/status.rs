//! `/v3/requests/{requestId}`: the status of a send.

use std::collections::BTreeMap;

use actix_web::HttpResponse;
use actix_web::web::Data;
use domain::{Channel, Problem, Reason, SendId, Status, TemplateProfile, Timestamp};
use serde::Serialize;
use store::sends::status::{RequestSummary, UnknownRecipients, WaitingGroup};
use utoipa::ToSchema;
use web::failure::Failure;
use web::path_id::PathId;

use crate::access::caller::AppCaller;
use crate::gateway::Gateway;
use crate::openapi::vocabulary::{self, Time, TopicIdentifier, Uuid};

/// Status of a send.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Request, example = json!({
    "requestId": "018f3c6e-7d1a-7cc2-b3a4-9a1f0f6f2b11", "status": "completed",
    "acceptedAt": "2027-01-31T09:00:00.000Z", "sendAt": null, "recipients": 2, "topics": [],
    "counts": {"inApp": {"delivered": 2}, "email": {"sent": 1, "skipped": 1}}, "warnings": [], "waiting": [],
}))]
struct RequestBody {
    #[schema(value_type = Uuid)]
    request_id: SendId,
    /// `scheduled`: the request waits for `sendAt`. `processing`: deliveries are being planned or made. `completed`: all
    /// deliveries have ended. `cancelled`: a call cancelled the request. `parked`: planning failed repeatedly; it resumes if an
    /// operator redrives the request.
    #[schema(pattern = "^(scheduled|processing|completed|cancelled|parked)$")]
    status: &'static str,
    #[schema(value_type = Time)]
    accepted_at: Timestamp,
    #[schema(value_type = Option<Time>)]
    send_at: Option<Timestamp>,
    /// Number of recipients. It grows while the subscribers of the topics are being planned.
    #[schema(minimum = 0)]
    recipients: i32,
    /// The topics of the send; empty if it has none.
    topics: Vec<TopicCount>,
    /// Number of deliveries by channel and status.
    #[schema(value_type = BTreeMap<String, BTreeMap<String, i64>>)]
    counts: BTreeMap<Channel, BTreeMap<Status, i64>>,
    /// Gaps of the send: `missing_data` for each variable that its template needs and its data lacked, `missing_profile` for each that the
    /// profiles of its recipients lacked, and `unknown_recipient` for each of the first 50 recipients that were no users. The list is
    /// complete once all recipients are planned.
    #[schema(value_type = Vec<web::described::Problem>)]
    warnings: Vec<Problem>,
    /// Deliveries that wait for a provider, by cause. Empty unless `counts` contains `waiting`.
    waiting: Vec<WaitingBody>,
}

/// Deliveries of a send that wait for the same cause.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WaitingDeliveries)]
pub(crate) struct WaitingBody {
    #[schema(value_type = vocabulary::Channel)]
    channel: Channel,
    #[schema(value_type = vocabulary::Reason)]
    reason: Reason,
    /// Provider that is to be called; null if it is not chosen yet.
    provider: Option<String>,
    /// Code of the answer for which the deliveries wait; null if there was none.
    code: Option<String>,
    #[schema(minimum = 1)]
    deliveries: i64,
    /// Earliest time of the next attempt of one of them.
    #[schema(value_type = Time)]
    next_attempt_at: Timestamp,
}

impl From<WaitingGroup> for WaitingBody {
    fn from(group: WaitingGroup) -> WaitingBody {
        let WaitingGroup { channel, reason, provider, code, deliveries, next_attempt_at } = group;
        WaitingBody { channel, reason, provider, code, deliveries, next_attempt_at }
    }
}

/// A topic of a send.
#[derive(Serialize, ToSchema)]
struct TopicCount {
    #[schema(value_type = TopicIdentifier)]
    topic: String,
    /// Number of its subscribers among the recipients. A subscriber of several topics counts for the first of them.
    recipients: u32,
}

/// Gets the status of a request. Requests are removed 30 days after they were due, unless the operator sets another time.
#[utoipa::path(
    get,
    path = "/v3/requests/{requestId}",
    operation_id = "getRequest",
    tag = "requests",
    security(("app" = [])),
    params(("requestId" = Uuid, Path, description = "The `requestId` from the answer to the send.")),
    responses((status = 200, description = "The request.", body = RequestBody)),
)]
pub(crate) async fn retrieve(
    caller: AppCaller,
    gateway: Data<Gateway>,
    id: PathId,
) -> Result<HttpResponse, Failure> {
    let request_id = id.request()?;
    let request = gateway.sends.request(&caller.backend, caller.app, request_id).await?;
    let status = status(&request);
    let count = |(topic, recipients): (String, u32)| TopicCount { topic, recipients };
    let topics = request.topics.into_iter().map(count).collect();
    Ok(HttpResponse::Ok().json(RequestBody {
        request_id,
        status,
        accepted_at: request.accepted_at,
        send_at: request.send_at,
        recipients: request.recipients,
        topics,
        counts: request.counts,
        warnings: request.missing.iter().map(missing).chain(unknown(&request.unknown)).collect(),
        waiting: request.waiting.into_iter().map(WaitingBody::from).collect(),
    }))
}

fn missing((variable, recipients): &(String, i64)) -> Problem {
    let plural = if *recipients == 1 { "" } else { "s" };
    let of_profile = variable.strip_prefix("recipient.");
    let (field, code, cause) = match of_profile {
        None => (format!("data.{variable}"), "missing_data", ""),
        Some(key) if TemplateProfile::App.shows(key) => {
            (variable.clone(), "missing_profile", " in the profile")
        }
        // The app may hide such keys from templates.
        Some(_) => {
            (variable.clone(), "missing_profile", " in the profile, or hidden by template-profile=app,")
        }
    };
    let message =
        format!("{field} was missing{cause} for {recipients} recipient{plural}; the template shows it");
    Problem::new(field, code, message)
}

fn unknown(unknown: &UnknownRecipients) -> impl Iterator<Item = Problem> {
    let problem = |message: String| Problem::new("sendTo.recipients", "unknown_recipient", message);
    let named = unknown.named.iter();
    let rest = unknown.count.saturating_sub(i64::try_from(unknown.named.len()).unwrap_or(i64::MAX));
    let rest = (rest > 0)
        .then(|| format!("sendTo.recipients: {rest} more did not exist; the deliveries with the reason recipient_unknown name them"));
    named
        .map(|identifier| format!("sendTo.recipients: the user {identifier:?} did not exist"))
        .chain(rest)
        .map(problem)
        .collect::<Vec<_>>()
        .into_iter()
}

/// Returns the status of the request as a whole; see [`RequestBody::status`].
fn status(request: &RequestSummary) -> &'static str {
    let all_planned = !request.expanding && request.planned >= i64::from(request.recipients);
    let all_ended = request.counts.values().flat_map(BTreeMap::keys).all(|status| status.is_terminal());
    match request {
        RequestSummary { cancelled: true, .. } => "cancelled",
        _ if all_planned && all_ended => "completed",
        RequestSummary { parked: true, .. } => "parked",
        RequestSummary { planned: 0, send_at: Some(_), .. } => "scheduled",
        _ => "processing",
    }
}
