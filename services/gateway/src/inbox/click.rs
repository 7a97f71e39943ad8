//! `/v3/push/click/{token}`: a browser reports that its user opened a notification that it had shown.

use actix_web::web::Data;
use actix_web::{HttpRequest, HttpResponse};
use credentials::link::{Link, Purpose};
use domain::event::ItemsChanged;
use domain::inbox::ItemChange;
use domain::{Event, ItemId};

use crate::gateway::{Gateway, database};
use crate::http::failure::Failure;
use crate::http::path_id::PathId;
use crate::shares::holder::Holder;
use crate::shares::peer::Peer;
use crate::waiting::{WaitError, wait};

/// Reports that a notification of web push was opened.
///
/// The link is part of the message that a browser gets, and says by itself whose notification it is: it needs no
/// credentials, and does nothing else. What the send put into the user's inbox is marked as read; a second report changes
/// nothing, and so does one of what is not in the inbox.
#[utoipa::path(
    post,
    path = "/v3/push/click/{token}",
    operation_id = "reportPushClick",
    tag = "inbox",
    params(("token" = String, Path, description = "As the message has it.")),
    responses(
        (status = 204, description = "It is reported."),
        (status = 404, description = "The service made no such link."),
        (status = 500, description = "A defect.", body = crate::openapi::error::Defect),
        (status = 429, description = "Too many such requests come from this address."),
        (status = 503, description = "It cannot be taken now; repeat it."),
    ),
)]
pub(crate) async fn report(
    request: HttpRequest,
    gateway: Data<Gateway>,
    id: PathId,
) -> Result<HttpResponse, Failure> {
    gateway.admit_stranger(&request, Holder::stranger(Peer::of_request(&request))).await?;
    let token = id.token().ok_or_else(no_such_link)?;
    let link = match wait(gateway.links.verify(&token)).await {
        Ok(Ok(link)) => link.ok_or_else(no_such_link)?,
        Ok(Err(error)) => {
            return Err(Failure::unavailable("the link cannot be checked now; repeat it", error));
        }
        Err(WaitError::Crowded) => return Err(crate::http::failure::crowded()),
        Err(WaitError::Overdue) => {
            return Err(Failure::unavailable(
                "the link cannot be checked now; repeat it",
                "no answer in time",
            ));
        }
    };
    let Link { app, user, purpose: Purpose::Click(send) } = link else {
        return Err(no_such_link());
    };
    if let Some(item) = database(gateway.store.unread_item_of(app, user, send)).await? {
        gateway.change_inbox(app, user, opened(user, item)).await?;
    }
    Ok(HttpResponse::NoContent().finish())
}

fn opened(user: domain::UserNumber, item: ItemId) -> Event {
    Event::InboxItemsChanged(ItemChange::Read, ItemsChanged { user, items: vec![item] })
}

fn no_such_link() -> Failure {
    Failure::not_found("no such link")
}
