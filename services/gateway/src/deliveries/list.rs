//! `/v3/requests/{requestId}/deliveries`: the deliveries of a send, by recipient and channel.

use actix_web::HttpResponse;
use actix_web::web::Data;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::{Channel, Problem, SendId, Status, Timestamp};
use serde::Serialize;
use store::sends::pairs::{PairFilter, PairPosition, PairStatus};
use utoipa::ToSchema;
use web::failure::{Failure, valid_or_problems};
use web::path_id::PathId;
use web::query::Query;

use crate::access::caller::AppCaller;
use crate::deliveries::shown::{DeliveryBody, present};
use crate::gateway::Gateway;
use crate::openapi::vocabulary::{self, Cursor, Time, Uuid};

/// Maximum and default number of deliveries on a page.
const MAX_LIMIT: i64 = 100;

/// A page of deliveries.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DeliveryList, example = json!({
    "acceptedAt": "2027-01-31T09:00:00.000Z",
    "data": [{
        "id": "6f9a6721-db99-52b3-8e3e-78775110ebb0", "requestId": "018f3c6e-7d1a-7cc2-b3a4-9a1f0f6f2b11", "recipient": "ada", "channel": "email",
        "target": "a***@example.com", "provider": "main", "status": "sent", "reason": null,
        "code": "250", "nextAttemptAt": null,
        "plannedAt": "2027-01-31T09:00:00.050Z", "settledAt": "2027-01-31T09:00:00.310Z",
        "attempts": [{
            "number": 1, "startedAt": "2027-01-31T09:00:00.100Z", "endedAt": "2027-01-31T09:00:00.300Z",
            "provider": "main", "outcome": "sent", "providerCode": "250", "providerMessage": "2.0.0 Ok", "providerId": "4711",
            "segments": null, "receipt": null,
        }],
    }],
    "nextCursor": null,
}))]
struct Listing<'a> {
    /// Time at which the send was accepted.
    #[schema(value_type = Time)]
    accepted_at: Timestamp,
    data: Vec<DeliveryBody<'a>>,
    /// Null on the last page.
    next_cursor: Option<String>,
}

/// Lists the deliveries of a request, sorted by the recipient's position in the send, then by channel.
///
/// With `recipient`, the answer is the full history of one recipient: when the send was accepted and planned, the decision for
/// each channel with its reason, and every attempt with the provider's answer.
#[utoipa::path(
    get,
    path = "/v3/requests/{requestId}/deliveries",
    operation_id = "listDeliveries",
    tag = "requests",
    security(("app" = [])),
    params(
        ("requestId" = Uuid, Path, description = "The `requestId` from the answer to the send."),
        ("recipient" = Option<String>, Query, description = "Only deliveries to the user with this identifier."),
        ("channel" = Option<vocabulary::Channel>, Query, description = "Only deliveries on this channel."),
        ("status" = Option<vocabulary::Status>, Query, description = "Only deliveries in this state. `queued` and `retrying` also list deliveries that are `waiting`."),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 100, description = "Maximum number of deliveries on the page; 100 by default."),
        ("cursor" = inline(Option<Cursor>), Query, description = "The `nextCursor` of an earlier answer."),
    ),
    responses((status = 200, description = "A page of up to 100 deliveries.", body = Listing)),
)]
pub(crate) async fn list(
    caller: AppCaller,
    gateway: Data<Gateway>,
    id: PathId,
    query: Query,
) -> Result<HttpResponse, Failure> {
    let mut problems = Vec::new();
    let recipient = query.text("recipient", &mut problems);
    let channels: Vec<_> = Channel::ALL.iter().map(|&channel| (channel.as_str(), channel)).collect();
    let channel = query.one_of("channel", &channels, &mut problems);
    let statuses: Vec<_> = Status::ALL.iter().map(|&status| (status.as_str(), status)).collect();
    let status = query.one_of("status", &statuses, &mut problems);
    let limit = query.number("limit", 1..=MAX_LIMIT, &mut problems).unwrap_or(MAX_LIMIT);
    let after = query.text("cursor", &mut problems).and_then(|text| read_cursor(&text, &mut problems));
    query.finish(&mut problems);
    valid_or_problems(Some(()), problems)?;

    let request = id.request()?;
    let filter = PairFilter { recipient: recipient.as_deref(), channel, status, recipient_index: None };
    // Read one delivery more than the page shows, to find out if there is a next page.
    let found = gateway.sends.deliveries(&caller.backend, (caller.app, request), filter, after, limit + 1);
    let (accepted_at, mut deliveries) = found.await?;
    let is_last = deliveries.len() as u64 <= limit.unsigned_abs();
    if !is_last {
        deliveries.pop();
    }
    Ok(answer(request, accepted_at, &deliveries, is_last))
}

fn answer(request: SendId, accepted_at: Timestamp, deliveries: &[PairStatus], is_last: bool) -> HttpResponse {
    HttpResponse::Ok().json(Listing {
        accepted_at,
        data: deliveries.iter().map(|delivery| present(request, delivery)).collect(),
        next_cursor: deliveries.last().filter(|_| !is_last).map(|last| cursor_after(&last.position)),
    })
}

/// Encodes a position in the list as a cursor.
fn cursor_after(position: &PairPosition) -> String {
    let PairPosition { recipient_index, channel, id } = position;
    URL_SAFE_NO_PAD.encode(format!("{recipient_index}.{channel}.{id}"))
}

fn read_cursor(text: &str, problems: &mut Vec<Problem>) -> Option<PairPosition> {
    let position = parse_cursor(text);
    if position.is_none() {
        let message = "cursor must be the nextCursor of an earlier answer";
        problems.push(Problem::new("cursor", "invalid_cursor", message));
    }
    position
}

fn parse_cursor(text: &str) -> Option<PairPosition> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let mut parts = std::str::from_utf8(&bytes).ok()?.splitn(3, '.');
    let recipient_index = parts.next()?.parse().ok()?;
    let channel = parts.next()?.parse().ok()?;
    Some(PairPosition { recipient_index, channel, id: parts.next()?.parse().ok()? })
}
