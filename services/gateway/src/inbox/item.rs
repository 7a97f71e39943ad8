//! `/v3/notifications/{id}`: one notification of an inbox, and what changes it.

use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::http::{Method, StatusCode};
use actix_web::web::Data;
use domain::event::ItemsChanged;
use domain::id::partition;
use domain::inbox::ItemChange;
use domain::{AppId, Envelope, Event, ItemId, StreamName};
use service_kit::{clock, trace};
use store::inbox::InboxItem;

use crate::access::caller::Caller;
use crate::gateway::{Gateway, Repeats, database};
use crate::http::failure::{Failure, sound};
use crate::http::path_id::PathId;
use crate::http::query::Query;
use crate::http::status_body::{StatusBody, status_body};
use crate::inbox::notification::Notification;
use crate::openapi::vocabulary::Id;

/// How long an answer waits for the inbox to show a change.
const VISIBLE_WITHIN: Duration = Duration::from_millis(1500);

/// Retrieves a notification. A user who does so has seen it.
#[utoipa::path(
    get,
    path = "/v3/notifications/{id}",
    operation_id = "getNotification",
    tag = "inbox",
    security(("either" = [])),
    params(
        ("id" = Id, Path, description = "The notification's id."),
        ("markSeen" = Option<bool>, Query, description = "Whether this marks it as seen. Never where an app acts."),
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
    let mark_seen =
        sound(Some(mark_seen.unwrap_or(true)), problems)? && !caller.by_app && method == Method::GET;
    let item = gateway.find_item(&caller, id.item()?).await?;
    let seen = match mark_seen && item.state.seen_at.is_none() {
        true => gateway.mark_seen(&caller, &item).await,
        false => None,
    };
    Ok(HttpResponse::Ok().json(Notification::of(&seen.unwrap_or(item))?))
}

/// Marks as read, and so as seen.
#[utoipa::path(
    post,
    path = "/v3/notifications/{id}/click",
    operation_id = "markNotificationAsRead",
    tag = "inbox",
    security(("either" = [])),
    params(("id" = Id, Path, description = "The notification's id.")),
    responses(
        (status = 200, description = "The notification, read.", body = Notification),
        (status = 202, description = "It is stored, and soon visible.", body = StatusBody),
    ),
)]
pub(crate) async fn read(
    caller: Caller,
    gateway: Data<Gateway>,
    id: PathId,
) -> Result<HttpResponse, Failure> {
    gateway.change_and_show(&caller, id.item()?, ItemChange::Read).await
}

/// Marks as unread.
#[utoipa::path(
    delete,
    path = "/v3/notifications/{id}/reads",
    operation_id = "markNotificationAsUnread",
    tag = "inbox",
    security(("either" = [])),
    params(("id" = Id, Path, description = "The notification's id.")),
    responses(
        (status = 200, description = "The notification, unread.", body = Notification),
        (status = 202, description = "It is stored, and soon visible.", body = StatusBody),
    ),
)]
pub(crate) async fn unread(
    caller: Caller,
    gateway: Data<Gateway>,
    id: PathId,
) -> Result<HttpResponse, Failure> {
    gateway.change_and_show(&caller, id.item()?, ItemChange::Unread).await
}

/// Marks as seen.
#[utoipa::path(
    put,
    path = "/v3/notifications/{id}/views",
    operation_id = "markNotificationAsSeen",
    tag = "inbox",
    security(("either" = [])),
    params(("id" = Id, Path, description = "The notification's id.")),
    responses(
        (status = 200, description = "The notification, seen.", body = Notification),
        (status = 202, description = "It is stored, and soon visible.", body = StatusBody),
    ),
)]
pub(crate) async fn seen(
    caller: Caller,
    gateway: Data<Gateway>,
    id: PathId,
) -> Result<HttpResponse, Failure> {
    gateway.change_and_show(&caller, id.item()?, ItemChange::Seen).await
}

/// Marks as unseen, and so as unread.
#[utoipa::path(
    delete,
    path = "/v3/notifications/{id}/views",
    operation_id = "markNotificationAsUnseen",
    tag = "inbox",
    security(("either" = [])),
    params(("id" = Id, Path, description = "The notification's id.")),
    responses(
        (status = 200, description = "The notification, unseen.", body = Notification),
        (status = 202, description = "It is stored, and soon visible.", body = StatusBody),
    ),
)]
pub(crate) async fn unseen(
    caller: Caller,
    gateway: Data<Gateway>,
    id: PathId,
) -> Result<HttpResponse, Failure> {
    gateway.change_and_show(&caller, id.item()?, ItemChange::Unseen).await
}

/// Removes from the inbox.
#[utoipa::path(
    delete,
    path = "/v3/notifications/{id}",
    operation_id = "deleteNotification",
    tag = "inbox",
    security(("either" = [])),
    params(("id" = Id, Path, description = "The notification's id.")),
    responses(
        (status = 200, description = "It is gone.", body = StatusBody),
        (status = 202, description = "It is stored, and soon visible.", body = StatusBody),
    ),
)]
pub(crate) async fn delete(
    caller: Caller,
    gateway: Data<Gateway>,
    id: PathId,
) -> Result<HttpResponse, Failure> {
    let item = gateway.find_item(&caller, id.item()?).await?;
    match gateway.change(caller.app, &item, ItemChange::Deleted).await? {
        true => Ok(status_body(StatusCode::OK, "the notification was deleted")),
        false => Ok(not_visible_yet()),
    }
}

impl Gateway {
    async fn change_and_show(
        &self,
        caller: &Caller,
        id: ItemId,
        change: ItemChange,
    ) -> Result<HttpResponse, Failure> {
        let item = self.find_item(caller, id).await?;
        if !self.change(caller.app, &item, change).await? {
            return Ok(not_visible_yet());
        }
        let item = self.find_item(caller, id).await?;
        Ok(HttpResponse::Ok().json(Notification::of(&item)?))
    }

    /// The item once the inbox shows it as seen. None where it does not in time, or the change cannot be written now:
    /// that is no reason to withhold the item.
    async fn mark_seen(&self, caller: &Caller, item: &InboxItem) -> Option<InboxItem> {
        let marked = async {
            let visible = self.change(caller.app, item, ItemChange::Seen).await?;
            if visible { self.find_item(caller, item.id).await.map(Some) } else { Ok(None) }
        };
        marked.await.unwrap_or_else(|failure| {
            tracing::warn!(%failure, "a retrieved notification is not marked as seen");
            None
        })
    }

    async fn find_item(&self, caller: &Caller, id: ItemId) -> Result<InboxItem, Failure> {
        let item = database(self.store.find_item(caller.app, caller.user.as_deref(), id)).await?;
        item.ok_or_else(|| Failure::not_found("no such notification"))
    }

    /// Makes a change durable, then waits until the inbox shows it. False: it does not show it in time.
    async fn change(&self, app: AppId, item: &InboxItem, change: ItemChange) -> Result<bool, Failure> {
        let partition = partition(app, item.user, self.partitions);
        let event = Envelope {
            id: clock::new_id(),
            app,
            at: clock::now(),
            send_id: None,
            caused_by: None,
            trace: trace::current_traceparent(),
            event: Event::InboxItemsChanged(change, ItemsChanged { user: item.user, items: vec![item.id] }),
        };
        let seq = self.append(StreamName::Inbox(partition), &event, Repeats::Impossible).await?;
        Ok(self.positions.reach(partition, seq, VISIBLE_WITHIN).await)
    }
}

fn not_visible_yet() -> HttpResponse {
    status_body(StatusCode::ACCEPTED, "the change is stored and will soon be visible")
}
