//! `/v3/push/click/{token}`: a browser reports that its user opened a push notification.

use actix_web::HttpResponse;
use actix_web::web::Data;
use credentials::link::{Link, Purpose};
use domain::event::ItemsChanged;
use domain::inbox::ItemChange;
use domain::{Event, ItemId};
use web::failure::Failure;
use web::path_id::PathId;
use web::stranger::Stranger;

use fairness::waiting::{WaitError, wait};
use web::database::database;

use crate::gateway::Gateway;

/// Reports that a web-push notification was opened.
///
/// The call marks the notification as read in the user's inbox. The push message contains the URL of this call. The token in the
/// URL identifies the send and the user, so the call needs no other credentials; the token allows nothing else. A repeated
/// report, or a report for a notification that is not in the inbox, changes nothing.
#[utoipa::path(
    post,
    path = "/v3/push/click/{token}",
    operation_id = "reportPushClick",
    tag = "inbox",
    params(("token" = String, Path, description = "The token of the link in the push message.")),
    responses(
        (status = 204, description = "The report is accepted."),
        (status = 404, description = "The token is not valid."),
        (status = 500, description = "An internal error.", body = web::failure::DefectBody),
        (status = 429, description = "Too many such requests from this address."),
        (status = 503, description = "The service cannot accept the report now; retry."),
    ),
)]
pub(crate) async fn report(_: Stranger, gateway: Data<Gateway>, id: PathId) -> Result<HttpResponse, Failure> {
    let token = id.token().ok_or_else(no_such_link)?;
    let link = match wait(gateway.links.verify(&token)).await {
        Ok(Ok(link)) => link.ok_or_else(no_such_link)?,
        Ok(Err(error)) => {
            return Err(Failure::unavailable("the link cannot be checked now; repeat it", error));
        }
        Err(WaitError::Crowded) => return Err(web::failure::crowded()),
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
    if let Some(item) = database(gateway.store.inbox().unread_item_of(app, user, send)).await? {
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
