//! `GET /v3/notifications`: a user's inbox.

use actix_web::HttpResponse;
use actix_web::web::Data;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::{ItemId, Problem, Timestamp};
use operations::inbox::Listed;
use serde::Serialize;
use store::inbox::list::{InboxFilter, InboxItem, InboxPage, PageStart, Place};
use utoipa::ToSchema;
use web::failure::{Failure, valid_or_problems};
use web::query::Query;

use crate::access::caller::UserCaller;
use crate::gateway::Gateway;
use crate::inbox::notification::Notification;
use crate::openapi::vocabulary::{Count, Cursor};

/// Default number of notifications on a page.
pub(crate) const DEFAULT_LIMIT: i64 = 15;
/// Maximum number of notifications on a page.
pub(crate) const MAX_LIMIT: i64 = 20;
/// Highest page number.
pub(crate) const LAST_PAGE: i64 = 1_000_000;

/// State that selects the notifications to list.
#[derive(Clone, Copy, PartialEq, Eq, ToSchema)]
#[schema(rename_all = "lowercase")]
enum Filter {
    Unread,
    Read,
    Unseen,
    Seen,
    /// Notifications that have an app-defined state.
    Interacted,
    Archived,
    Snoozed,
}

const FILTERS: [(&str, Filter); 7] = [
    ("unread", Filter::Unread),
    ("read", Filter::Read),
    ("unseen", Filter::Unseen),
    ("seen", Filter::Seen),
    ("interacted", Filter::Interacted),
    ("archived", Filter::Archived),
    ("snoozed", Filter::Snoozed),
];

/// The part of an inbox that a request selects.
struct Page {
    /// Number of the page, from 1; None if the request has a cursor.
    number: Option<i64>,
    start: PageStart,
    limit: i64,
    filter: Option<Filter>,
    category: Option<String>,
}

/// A page of an inbox. `unreadCount` and `unseenCount` cover all notifications that are neither archived nor snoozed.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = NotificationList, example = json!({
    "unreadCount": 1, "unseenCount": 0,
    "pagination": {"totalCount": 1, "pageNo": 1, "limit": 15, "pageCount": 1, "nextCursor": null},
    "data": [{
        "id": 4096, "title": "Your order is on its way", "message": "It arrives on Friday.", "icon": null,
        "url": null, "data": {}, "blocks": [], "createdAt": "2027-01-31T09:00:00.000Z",
        "seenAt": "2027-01-31T09:05:00.000Z", "clickedAt": null, "category": null, "state": null,
        "archivedAt": null, "snoozedUntil": null,
    }],
}))]
struct Listing<'a> {
    #[schema(value_type = Count)]
    unread_count: i64,
    #[schema(value_type = Count)]
    unseen_count: i64,
    pagination: Pagination,
    data: Vec<Notification<'a>>,
}

/// Position of this page in the list. `totalCount` is the number of notifications that match the filter and the category. If
/// the request has a category, or the filter `interacted`, `archived` or `snoozed`, the service counts only up to 10,000.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Pagination {
    #[schema(value_type = Count)]
    total_count: i64,
    /// Null if the request has a cursor.
    page_no: Option<i64>,
    #[schema(minimum = 1, maximum = 20)]
    limit: i64,
    #[schema(value_type = Count)]
    page_count: i64,
    /// Cursor of the next page; null on the last page. Pages by number shift when new notifications arrive; pages by cursor do
    /// not.
    next_cursor: Option<String>,
}

/// Lists one page of the user's inbox, newest first.
///
/// Archived and snoozed notifications are only listed with the filter `archived` or `snoozed`.
#[utoipa::path(
    get,
    path = "/v3/notifications",
    operation_id = "listNotifications",
    tag = "inbox",
    security(("user" = [])),
    params(
        ("pageNo" = Option<i64>, Query, minimum = 1, maximum = 1000000, description = "Number of the page; 1 by default."),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 20, description = "Maximum number of notifications on the page; 15 by default."),
        ("cursor" = inline(Option<Cursor>), Query, description = "A `pagination.nextCursor` in place of `pageNo`; both together are a 400 (`conflict`)."),
        ("filter" = inline(Option<Filter>), Query, description = "Only notifications in this state; `interacted` means that they have a state set by the app. `archived` and `snoozed` list the notifications that all other lists leave out."),
        ("category" = Option<String>, Query, description = "Only notifications of the category with this identifier."),
    ),
    responses((status = 200, description = "A page of the inbox.", body = Listing)),
)]
pub(crate) async fn list(
    caller: UserCaller,
    gateway: Data<Gateway>,
    query: Query,
) -> Result<HttpResponse, Failure> {
    let page = Page::read(&query)?;
    let limit = usize::try_from(page.limit).unwrap_or_default();
    let listed = gateway.inboxes.list(&caller.caller, page.filter(), page.start, limit).await?;
    answer(&page, &listed)
}

impl Page {
    fn read(query: &Query) -> Result<Page, Failure> {
        let mut problems = Vec::new();
        let number = query.number("pageNo", 1..=LAST_PAGE, &mut problems);
        let limit = query.number("limit", 1..=MAX_LIMIT, &mut problems).unwrap_or(DEFAULT_LIMIT);
        let cursor = query.text("cursor", &mut problems).and_then(|text| read_cursor(&text, &mut problems));
        if cursor.is_some() && number.is_some() {
            problems.push(Problem::new("cursor", "conflict", "cursor and pageNo must not be sent together"));
        }
        let filter = query.one_of("filter", &FILTERS, &mut problems);
        let category = query.text("category", &mut problems);
        query.finish(&mut problems);
        let (number, start) = match cursor {
            Some(start) => (None, start),
            None => {
                let number = number.unwrap_or(1);
                (Some(number), PageStart::Offset((number - 1) * limit))
            }
        };
        valid_or_problems(Some(Page { number, start, limit, filter, category }), problems)
    }

    fn filter(&self) -> InboxFilter<'_> {
        let is = |yes, no| match self.filter {
            Some(filter) if filter == yes => Some(true),
            Some(filter) if filter == no => Some(false),
            _ => None,
        };
        InboxFilter {
            category: self.category.as_deref(),
            read: is(Filter::Read, Filter::Unread),
            seen: is(Filter::Seen, Filter::Unseen),
            has_state: (self.filter == Some(Filter::Interacted)).then_some(true),
            place: match self.filter {
                Some(Filter::Archived) => Place::Archive,
                Some(Filter::Snoozed) => Place::Snoozed,
                _ => Place::List,
            },
        }
    }
}

fn answer(page: &Page, listed: &Listed) -> Result<HttpResponse, Failure> {
    let Listed { page: InboxPage { counts, items }, has_more, total } = listed;
    Ok(HttpResponse::Ok().json(Listing {
        unread_count: counts.unread,
        unseen_count: counts.unseen,
        pagination: Pagination {
            total_count: *total,
            page_no: page.number,
            limit: page.limit,
            page_count: (total + page.limit - 1) / page.limit,
            next_cursor: items.last().filter(|_| *has_more).map(cursor_after),
        },
        data: items.iter().map(Notification::of).collect::<Result<_, _>>()?,
    }))
}

/// Encodes the position of an item as the cursor for the items after it.
fn cursor_after(item: &InboxItem) -> String {
    URL_SAFE_NO_PAD.encode(format!("{}.{}", item.created_at.millis(), item.id))
}

fn read_cursor(text: &str, problems: &mut Vec<Problem>) -> Option<PageStart> {
    let start = parse_cursor(text);
    if start.is_none() {
        let message = "cursor must be the pagination.nextCursor of an earlier answer";
        problems.push(Problem::new("cursor", "invalid_cursor", message));
    }
    start
}

fn parse_cursor(text: &str) -> Option<PageStart> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let (millis, id) = std::str::from_utf8(&bytes).ok()?.split_once('.')?;
    let millis = millis.parse().ok().filter(|millis| (0..1 << 53).contains(millis))?;
    Some(PageStart::After(Timestamp::from_millis(millis), ItemId(id.parse().ok()?)))
}
