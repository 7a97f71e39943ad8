//! `/v3/notifications/{id}`: one notification of an inbox, and changes to it.

use actix_web::HttpResponse;
use actix_web::http::{Method, StatusCode};
use actix_web::web::Data;
use domain::ItemId;
use domain::inbox::ItemChange;
use operations::inbox::{Change, Recency};
use store::inbox::list::InboxItem;
use web::failure::{Failure, valid_or_problems};
use web::path_id::PathId;
use web::query::Query;
use web::status_body::{StatusBody, status_body};

use crate::access::caller::Caller;
use crate::gateway::Gateway;
use crate::inbox::change::not_shown_yet;
use crate::inbox::notification::Notification;
use crate::openapi::vocabulary::Id;

/// Gets a notification. A call by the user also marks it as seen, unless `markSeen` is false.
#[utoipa::path(
    get,
    path = "/v3/notifications/{id}",
    operation_id = "getNotification",
    tag = "inbox",
    security(("either" = [])),
    params(
        ("id" = Id, Path, description = "The notification's id."),
        ("markSeen" = Option<bool>, Query, description = "If true, a call by the user marks the notification as seen. Default: true. A call by the app never marks it."),
    ),
    responses((status = 200, description = "The notification.", body = Notification)),
)]
pub(crate) async fn retrieve(
    caller: Caller,
    gateway: Data<Gateway>,
    method: Method,
    id: PathId,
    query: Query,
) -> Result<HttpResponse, Failure> {
    let mut problems = Vec::new();
    let mark_seen = query.flag("markSeen", &mut problems);
    query.finish(&mut problems);
    let mark_seen = valid_or_problems(Some(mark_seen.unwrap_or(true)), problems)?
        && !caller.by_app
        && method == Method::GET;
    let id = id.item()?;
    let item = if mark_seen {
        gateway.inboxes.open(&caller.caller, caller.app, id).await?
    } else {
        gateway.inboxes.find(&caller.caller, caller.app, id).await?
    };
    Ok(HttpResponse::Ok().json(Notification::of(&item)?))
}

/// Marks a notification as read and seen.
#[utoipa::path(
    post,
    path = "/v3/notifications/{id}/click",
    operation_id = "markNotificationAsRead",
    tag = "inbox",
    security(("either" = [])),
    params(("id" = Id, Path, description = "The notification's id.")),
    responses(
        (status = 200, description = "The notification, now read.", body = Notification),
        (status = 202, description = "The change is stored and soon visible.", body = StatusBody),
    ),
)]
pub(crate) async fn read(
    caller: Caller,
    gateway: Data<Gateway>,
    id: PathId,
) -> Result<HttpResponse, Failure> {
    mark(&gateway, &caller, id.item()?, ItemChange::Read).await
}

/// Marks a notification as unread.
#[utoipa::path(
    delete,
    path = "/v3/notifications/{id}/reads",
    operation_id = "markNotificationAsUnread",
    tag = "inbox",
    security(("either" = [])),
    params(("id" = Id, Path, description = "The notification's id.")),
    responses(
        (status = 200, description = "The notification, now unread.", body = Notification),
        (status = 202, description = "The change is stored and soon visible.", body = StatusBody),
    ),
)]
pub(crate) async fn unread(
    caller: Caller,
    gateway: Data<Gateway>,
    id: PathId,
) -> Result<HttpResponse, Failure> {
    mark(&gateway, &caller, id.item()?, ItemChange::Unread).await
}

/// Marks a notification as seen.
#[utoipa::path(
    put,
    path = "/v3/notifications/{id}/views",
    operation_id = "markNotificationAsSeen",
    tag = "inbox",
    security(("either" = [])),
    params(("id" = Id, Path, description = "The notification's id.")),
    responses(
        (status = 200, description = "The notification, now seen.", body = Notification),
        (status = 202, description = "The change is stored and soon visible.", body = StatusBody),
    ),
)]
pub(crate) async fn seen(
    caller: Caller,
    gateway: Data<Gateway>,
    id: PathId,
) -> Result<HttpResponse, Failure> {
    mark(&gateway, &caller, id.item()?, ItemChange::Seen).await
}

/// Marks a notification as unseen and unread.
#[utoipa::path(
    delete,
    path = "/v3/notifications/{id}/views",
    operation_id = "markNotificationAsUnseen",
    tag = "inbox",
    security(("either" = [])),
    params(("id" = Id, Path, description = "The notification's id.")),
    responses(
        (status = 200, description = "The notification, now unseen.", body = Notification),
        (status = 202, description = "The change is stored and soon visible.", body = StatusBody),
    ),
)]
pub(crate) async fn unseen(
    caller: Caller,
    gateway: Data<Gateway>,
    id: PathId,
) -> Result<HttpResponse, Failure> {
    mark(&gateway, &caller, id.item()?, ItemChange::Unseen).await
}

/// Deletes a notification from the inbox.
#[utoipa::path(
    delete,
    path = "/v3/notifications/{id}",
    operation_id = "deleteNotification",
    tag = "inbox",
    security(("either" = [])),
    params(("id" = Id, Path, description = "The notification's id.")),
    responses(
        (status = 200, description = "The notification is deleted.", body = StatusBody),
        (status = 202, description = "The change is stored and soon visible.", body = StatusBody),
    ),
)]
pub(crate) async fn delete(
    caller: Caller,
    gateway: Data<Gateway>,
    id: PathId,
) -> Result<HttpResponse, Failure> {
    match gateway.inboxes.delete(&caller.caller, caller.app, id.item()?).await? {
        Recency::Shown(()) => Ok(status_body(StatusCode::OK, "the notification was deleted")),
        Recency::NotYet => Ok(not_shown_yet()),
    }
}

/// Marks or moves a notification, and answers with it.
pub(crate) async fn mark(
    gateway: &Gateway,
    caller: &Caller,
    id: ItemId,
    change: ItemChange,
) -> Result<HttpResponse, Failure> {
    shown(gateway.inboxes.change(&caller.caller, caller.app, id, Change::Mark(change)).await?)
}

/// Answers with a changed notification, or with a 202 if the inbox does not show the change yet.
pub(crate) fn shown(changed: Recency<InboxItem>) -> Result<HttpResponse, Failure> {
    match changed {
        Recency::Shown(item) => Ok(HttpResponse::Ok().json(Notification::of(&item)?)),
        Recency::NotYet => Ok(not_shown_yet()),
    }
}
