//! `/v3/notifications/{id}`: one notification of an inbox, and changes to it.

use actix_web::HttpResponse;
use actix_web::http::{Method, StatusCode};
use actix_web::web::Data;
use domain::event::ItemsChanged;
use domain::inbox::ItemChange;
use domain::{Event, ItemId};
use store::inbox::list::InboxItem;
use web::database::database;
use web::failure::{Failure, valid_or_problems};
use web::handling::Handling;
use web::path_id::PathId;
use web::query::Query;
use web::status_body::{StatusBody, status_body};

use crate::access::caller::Caller;
use crate::gateway::Gateway;
use crate::inbox::change::{Visibility, not_shown_yet};
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
    handling: Handling,
    query: Query,
) -> Result<HttpResponse, Failure> {
    let mut problems = Vec::new();
    let mark_seen = query.flag("markSeen", &mut problems);
    query.finish(handling, &mut problems);
    let mark_seen = valid_or_problems(Some(mark_seen.unwrap_or(true)), problems)?
        && !caller.by_app
        && method == Method::GET;
    let item = gateway.find_item(&caller, id.item()?).await?;
    let seen = if mark_seen && item.state.seen_at.is_none() {
        gateway.mark_seen(&caller, &item).await
    } else {
        None
    };
    Ok(HttpResponse::Ok().json(Notification::of(&seen.unwrap_or(item))?))
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
    gateway.mark(&caller, id.item()?, ItemChange::Read).await
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
    gateway.mark(&caller, id.item()?, ItemChange::Unread).await
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
    gateway.mark(&caller, id.item()?, ItemChange::Seen).await
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
    gateway.mark(&caller, id.item()?, ItemChange::Unseen).await
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
    let item = gateway.find_item(&caller, id.item()?).await?;
    match gateway
        .change_inbox_as(caller.has_proof, caller.app, item.user, marked(&item, ItemChange::Deleted))
        .await?
    {
        Visibility::Yes => Ok(status_body(StatusCode::OK, "the notification was deleted")),
        Visibility::NotYet => Ok(not_shown_yet()),
    }
}

impl Gateway {
    pub(crate) async fn mark(
        &self,
        caller: &Caller,
        id: ItemId,
        change: ItemChange,
    ) -> Result<HttpResponse, Failure> {
        let item = self.find_item(caller, id).await?;
        self.change_and_show(caller, &item, marked(&item, change)).await
    }

    /// Publishes a change of an item. Returns the changed item, or a 202 if the inbox does not show the change in time.
    pub(crate) async fn change_and_show(
        &self,
        caller: &Caller,
        item: &InboxItem,
        event: Event,
    ) -> Result<HttpResponse, Failure> {
        if self.change_inbox_as(caller.has_proof, caller.app, item.user, event).await? == Visibility::NotYet {
            return Ok(not_shown_yet());
        }
        let item = self.find_item(caller, item.id).await?;
        Ok(HttpResponse::Ok().json(Notification::of(&item)?))
    }

    /// Marks an item as seen, and returns the changed item. None if the change fails or if the inbox does not show it in time;
    /// the answer then contains the unchanged item.
    async fn mark_seen(&self, caller: &Caller, item: &InboxItem) -> Option<InboxItem> {
        let seen = async {
            match self
                .change_inbox_as(caller.has_proof, caller.app, item.user, marked(item, ItemChange::Seen))
                .await?
            {
                Visibility::Yes => self.find_item(caller, item.id).await.map(Some),
                Visibility::NotYet => Ok(None),
            }
        };
        seen.await.unwrap_or_else(|failure| {
            tracing::warn!(%failure, "cannot mark a retrieved notification as seen; returning it unchanged");
            None
        })
    }

    /// Finds the item with this id. 404 if it does not exist, or if the caller may not see it.
    pub(crate) async fn find_item(&self, caller: &Caller, id: ItemId) -> Result<InboxItem, Failure> {
        let item = database(self.store.inbox().find_item(caller.app, caller.user.as_deref(), id)).await?;
        item.ok_or_else(|| Failure::not_found("no such notification"))
    }
}

fn marked(item: &InboxItem, change: ItemChange) -> Event {
    Event::InboxItemsChanged(change, ItemsChanged { user: item.user, items: vec![item.id] })
}
