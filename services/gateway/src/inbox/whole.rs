//! `/v3/notifications/markAllNotificationsAs…`: changes to many notifications of an inbox at once.

use actix_web::http::StatusCode;
use actix_web::web::Data;
use actix_web::{HttpRequest, HttpResponse};
use domain::Problem;
use domain::inbox::AllChange;
use operations::inbox::Recency;
use serde::Serialize;
use store::inbox::list::{InboxFilter, PageStart};
use utoipa::ToSchema;
use web::deprecation;
use web::failure::{Failure, valid_or_problems};
use web::query::Query;
use web::status_body::StatusBody;

use crate::access::caller::UserCaller;
use crate::gateway::Gateway;
use crate::inbox::change::not_shown_yet;
use crate::inbox::list::{DEFAULT_LIMIT, LAST_PAGE, MAX_LIMIT};
use crate::openapi::vocabulary::Count;

/// Result of a change to many notifications.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({"statusCode": 200, "message": "the notifications were marked as read", "updated": 3}))]
pub(crate) struct Updated {
    status_code: u16,
    message: &'static str,
    /// Number of notifications that changed.
    #[schema(value_type = Count)]
    updated: i64,
}

/// Marks the 15 newest unseen notifications as seen.
///
/// If `page`, `pageNo` or `limit` is sent, the call instead marks the unseen notifications on that page of the list.
#[utoipa::path(
    post,
    path = "/v3/notifications/markAllNotificationsAsSeen",
    operation_id = "markAllNotificationsAsSeen",
    tag = "inbox",
    security(("user" = [])),
    params(
        ("page" = Option<i64>, Query, minimum = 1, maximum = 1000000, description = "Number of a page of the list, from 1."),
        ("pageNo" = Option<i64>, Query, minimum = 1, maximum = 1000000, description = "Alias of `page`. If both are sent with different numbers, the answer is a 400 (`conflict`)."),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 20, description = "Number of notifications on the page; 15 by default."),
    ),
    responses(
        (status = 200, description = "The notifications are marked as seen.", body = Updated),
        (status = 202, description = "The change is stored and soon visible.", body = StatusBody),
    ),
    extensions(("x-deprecated" = json!(true))),
)]
pub(crate) async fn seen(
    request: HttpRequest,
    caller: UserCaller,
    gateway: Data<Gateway>,
    query: Query,
) -> Result<HttpResponse, Failure> {
    deprecation::note(&request);
    const DONE: &str = "the notifications were marked as seen";
    let (filter, start, limit) = read_page(&query)?;
    Ok(answer(DONE, gateway.inboxes.mark_page_seen(&caller.caller, filter, start, limit).await?))
}

/// Marks all current notifications as read and seen.
///
/// Notifications that arrive after the call has started stay unread.
#[utoipa::path(
    post,
    path = "/v3/notifications/markAllNotificationsAsRead",
    operation_id = "markAllNotificationsAsRead",
    tag = "inbox",
    security(("user" = [])),
    responses(
        (status = 200, description = "The notifications are marked as read.", body = Updated),
        (status = 202, description = "The change is stored and soon visible.", body = StatusBody),
    ),
)]
pub(crate) async fn read(caller: UserCaller, gateway: Data<Gateway>) -> Result<HttpResponse, Failure> {
    let changed = gateway.inboxes.change_all(&caller.caller, AllChange::Read).await?;
    Ok(answer("the notifications were marked as read", changed))
}

/// Deletes all current notifications from the inbox.
///
/// Notifications that arrive after the call has started stay in the inbox.
#[utoipa::path(
    post,
    path = "/v3/notifications/markAllNotificationsAsDeleted",
    operation_id = "markAllNotificationsAsDeleted",
    tag = "inbox",
    security(("user" = [])),
    responses(
        (status = 200, description = "The notifications are deleted.", body = Updated),
        (status = 202, description = "The change is stored and soon visible.", body = StatusBody),
    ),
)]
pub(crate) async fn delete(caller: UserCaller, gateway: Data<Gateway>) -> Result<HttpResponse, Failure> {
    let changed = gateway.inboxes.change_all(&caller.caller, AllChange::Deleted).await?;
    Ok(answer("the notifications were deleted", changed))
}

/// Reads the parameters that name the page to mark. Returns the filter, the start and the length of that page.
fn read_page(query: &Query) -> Result<(InboxFilter<'static>, PageStart, i64), Failure> {
    let mut problems = Vec::new();
    let by_name = ["page", "pageNo"].map(|name| query.number(name, 1..=LAST_PAGE, &mut problems));
    let limit = query.number("limit", 1..=MAX_LIMIT, &mut problems);
    if let [Some(page), Some(page_no)] = by_name
        && page != page_no
    {
        problems.push(Problem::new("page", "conflict", "page and pageNo must not differ"));
    }
    query.finish(&mut problems);
    let [page, page_no] = by_name;
    let unseen = InboxFilter { seen: Some(false), ..InboxFilter::default() };
    let page = match (page.or(page_no), limit) {
        (None, None) => (unseen, PageStart::Offset(0), DEFAULT_LIMIT),
        (number, limit) => {
            let limit = limit.unwrap_or(DEFAULT_LIMIT);
            let start = PageStart::Offset((number.unwrap_or(1) - 1) * limit);
            (InboxFilter::default(), start, limit)
        }
    };
    valid_or_problems(Some(page), problems)
}

/// Creates the 200 for a change of a number of notifications, or the 202 for one that the inbox does not show yet.
pub(crate) fn answer(message: &'static str, changed: Recency<i64>) -> HttpResponse {
    match changed {
        Recency::Shown(updated) => {
            HttpResponse::Ok().json(Updated { status_code: StatusCode::OK.as_u16(), message, updated })
        }
        Recency::NotYet => not_shown_yet(),
    }
}
