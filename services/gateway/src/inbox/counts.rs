//! `GET /v3/notifications/counts`: the counters of a user's inbox.

use actix_web::HttpResponse;
use actix_web::web::Data;
use domain::inbox::Counts;
use serde::Serialize;
use utoipa::ToSchema;
use web::failure::Failure;

use crate::access::caller::UserCaller;
use crate::gateway::Gateway;
use crate::openapi::vocabulary::Count;

/// Counters of the notifications that are neither archived nor snoozed.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = InboxCounts, example = json!({"unreadCount": 1, "unseenCount": 0, "totalCount": 12}))]
pub(crate) struct InboxCounts {
    /// Number of notifications that the user has not read.
    #[schema(value_type = Count)]
    unread_count: i64,
    /// Number of notifications that the user has not seen.
    #[schema(value_type = Count)]
    unseen_count: i64,
    /// Number of notifications.
    #[schema(value_type = Count)]
    total_count: i64,
}

/// Gets the counters of the user's inbox.
#[utoipa::path(
    get,
    path = "/v3/notifications/counts",
    operation_id = "getNotificationCounts",
    tag = "inbox",
    security(("user" = [])),
    responses((status = 200, description = "The counters.", body = InboxCounts)),
)]
pub(crate) async fn retrieve(caller: UserCaller, gateway: Data<Gateway>) -> Result<HttpResponse, Failure> {
    let Counts { total, unread, unseen, hidden: _ } = gateway.inboxes.counts(&caller.caller).await?;
    let counts = InboxCounts { unread_count: unread, unseen_count: unseen, total_count: total };
    Ok(HttpResponse::Ok().json(counts))
}
