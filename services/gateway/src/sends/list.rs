//! `/v3/requests`: the sends of an app.

use actix_web::HttpResponse;
use actix_web::web::Data;
use domain::{Problem, SendId, Status, Timestamp};
use operations::requests::{self, SendFilter};
use serde::Serialize;
use store::sends::list::ListedSend;
use utoipa::ToSchema;
use web::failure::{Failure, valid_or_problems};
use web::query::Query;

use crate::access::caller::AppCaller;
use crate::gateway::Gateway;
use crate::openapi::vocabulary::{self, Cursor, Identifier, Time, Uuid};

const PAGE: i64 = 20;
const LARGEST_PAGE: i64 = 100;

/// A page of sends.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RequestList, example = json!({"data": [{
    "requestId": "018f3c6e-7d1a-7cc2-b3a4-9a1f0f6f2b11", "title": "Order 7 shipped", "category": "orders",
    "template": {"identifier": "order-shipped", "version": 4}, "recipients": 1, "cancelled": false,
    "acceptedAt": "2027-01-31T09:00:00.000Z", "sendAt": null,
}], "nextCursor": null}))]
struct Listing {
    data: Vec<SendBody>,
    /// Null on the last page. A page may have fewer sends than `limit`, even none, although others follow.
    next_cursor: Option<String>,
}

/// A send of the app.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ListedRequest)]
pub(crate) struct SendBody {
    #[schema(value_type = Uuid)]
    request_id: SendId,
    /// Title of the send itself; null if it has none.
    title: Option<String>,
    #[schema(value_type = Option<Identifier>)]
    category: Option<String>,
    template: Option<TemplateBody>,
    /// Number of recipients that are known so far.
    #[schema(minimum = 0)]
    recipients: i32,
    cancelled: bool,
    #[schema(value_type = Time)]
    accepted_at: Timestamp,
    #[schema(value_type = Option<Time>)]
    send_at: Option<Timestamp>,
}

/// The template of a send, with the version that it was planned with.
#[derive(Serialize, ToSchema)]
#[schema(as = UsedTemplate)]
pub(crate) struct TemplateBody {
    #[schema(value_type = Identifier)]
    pub(crate) identifier: String,
    #[schema(minimum = 1)]
    pub(crate) version: i32,
}

impl From<(String, i32)> for TemplateBody {
    fn from((identifier, version): (String, i32)) -> TemplateBody {
        TemplateBody { identifier, version }
    }
}

impl From<ListedSend> for SendBody {
    fn from(send: ListedSend) -> SendBody {
        SendBody {
            request_id: send.send_id,
            title: send.title,
            category: send.category,
            template: send.template.map(TemplateBody::from),
            recipients: send.recipients,
            cancelled: send.cancelled,
            accepted_at: send.accepted_at,
            send_at: send.send_at,
        }
    }
}

/// Lists the sends of the app, latest first.
///
/// With `recipient`, only sends to this user, and `status` is compared with what became of the send for the user on any channel. Without,
/// `status` is compared with the first 1,000 deliveries and recipients of each send. A call examines at most 2,000 sends, or 200 if it
/// compares statuses; `nextCursor` continues with the others.
#[utoipa::path(
    get,
    path = "/v3/requests",
    operation_id = "listRequests",
    tag = "requests",
    security(("app" = [])),
    params(
        ("recipient" = Option<String>, Query, description = "Only sends to the user with this identifier."),
        ("category" = Option<String>, Query, description = "Only sends of the category with this identifier."),
        ("status" = Option<vocabulary::Status>, Query, description = "Only sends with a delivery in this state."),
        ("since" = Option<Time>, Query, description = "Only sends that were accepted at this time or later."),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 100, description = "Maximum number of sends on the page; 20 by default."),
        ("cursor" = inline(Option<Cursor>), Query, description = "The `nextCursor` of an earlier answer."),
    ),
    responses((status = 200, description = "A page of sends.", body = Listing)),
)]
pub(crate) async fn list(
    caller: AppCaller,
    gateway: Data<Gateway>,
    query: Query,
) -> Result<HttpResponse, Failure> {
    let mut problems = Vec::new();
    let recipient = query.filter("recipient", &mut problems);
    let category = query.filter("category", &mut problems);
    let statuses: Vec<_> = Status::ALL.iter().map(|&status| (status.as_str(), status)).collect();
    let status = query.one_of("status", &statuses, &mut problems);
    let since = read_time(&query, "since", &mut problems);
    let limit = query.number("limit", 1..=LARGEST_PAGE, &mut problems).unwrap_or(PAGE);
    let before = read_cursor(&query, &mut problems);
    query.finish(&mut problems);
    valid_or_problems(Some(()), problems)?;

    let (recipient, category) = (recipient.as_deref(), category.as_deref());
    let filter = SendFilter { recipient, category, status, since, before };
    let limit = usize::try_from(limit).unwrap_or(1);
    let page = requests::list(&gateway.operations, &caller.backend, caller.app, filter, limit).await?;
    Ok(HttpResponse::Ok().json(Listing {
        data: page.sends.into_iter().map(SendBody::from).collect(),
        next_cursor: page.next.map(write_cursor),
    }))
}

/// Reads an RFC 3339 date-time; a value that is none adds a problem.
pub(crate) fn read_time(query: &Query, name: &'static str, problems: &mut Vec<Problem>) -> Option<Timestamp> {
    let text = query.text(name, problems)?;
    let time = Timestamp::parse(&text);
    if time.is_none() {
        let message = format!("{name} must be a date-time such as 2027-01-31T09:00:00Z (RFC 3339)");
        problems.push(Problem::new(name, "invalid_time", message));
    }
    time
}

pub(crate) fn write_cursor(before: SendId) -> String {
    before.0.simple().to_string()
}

pub(crate) fn read_cursor(query: &Query, problems: &mut Vec<Problem>) -> Option<SendId> {
    let text = query.text("cursor", problems)?;
    let position = text.parse().ok().map(SendId);
    if position.is_none() {
        let message = "cursor must be the nextCursor of an earlier answer";
        problems.push(Problem::new("cursor", "invalid_cursor", message));
    }
    position
}
