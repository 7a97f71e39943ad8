//! `/v3/requests/{requestId}`: the status of a send.

use std::collections::BTreeMap;
use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::web::Data;
use domain::{AppId, Channel, SendId, Status, Timestamp};
use serde::Serialize;
use service_kit::clock;
use store::sends::status::RequestSummary;
use tokio::time::{Instant, sleep};
use utoipa::ToSchema;
use web::database::database;
use web::failure::Failure;
use web::path_id::{PathId, no_such_request};

use crate::access::caller::AppCaller;
use crate::gateway::Gateway;
use crate::openapi::vocabulary::{Time, TopicIdentifier, Uuid};

/// Maximum time to wait until the dispatcher has written a request that was just accepted.
const PLANNED_WITHIN: Duration = Duration::from_millis(1500);
const ASK_INTERVAL: Duration = Duration::from_millis(50);

/// Status of a send.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Request, example = json!({
    "requestId": "018f3c6e-7d1a-7cc2-b3a4-9a1f0f6f2b11", "status": "completed",
    "acceptedAt": "2027-01-31T09:00:00.000Z", "sendAt": null, "recipients": 2, "topics": [],
    "counts": {"inApp": {"delivered": 2}, "email": {"sent": 1, "skipped": 1}},
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
    gateway.await_planning(caller.app, request_id).await?;
    let request = database(gateway.store.sends().find_request(caller.app, request_id)).await?;
    let request = request.ok_or_else(no_such_request)?;
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
    }))
}

impl Gateway {
    /// Waits up to 1.5 s until the dispatcher has written the request to the database, and returns the time of its acceptance.
    /// 404 if it is not written by then: the request does not exist, or belongs to another app.
    pub(crate) async fn await_planning(&self, app: AppId, request: SendId) -> Result<Timestamp, Failure> {
        let end = Instant::now() + PLANNED_WITHIN;
        loop {
            if let Some(accepted_at) = database(self.store.sends().find_acceptance(app, request)).await? {
                return Ok(accepted_at);
            }
            if !was_just_accepted(request) || Instant::now() + ASK_INTERVAL > end {
                return Err(no_such_request());
            }
            sleep(ASK_INTERVAL).await;
        }
    }
}

/// Returns true if the id was created at most 15 s ago. The dispatcher may not have written such a request yet. The id contains
/// its time of creation (RFC 9562, section 5.7).
fn was_just_accepted(request: SendId) -> bool {
    let Some(made) = request.0.get_timestamp() else {
        return false;
    };
    let (seconds, nanos) = made.to_unix();
    let made = Duration::new(seconds, nanos).as_millis();
    let now = u128::try_from(clock::now().millis()).unwrap_or(0);
    now.abs_diff(made) <= 10 * PLANNED_WITHIN.as_millis()
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
