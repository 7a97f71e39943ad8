//! `/v3/push/click/{token}`: a browser reports that its user opened a push notification.

use actix_web::HttpResponse;
use actix_web::web::Data;
use credentials::link::Purpose;
use fairness::waiting::{WaitError, wait};
use operations::Caller;
use web::failure::Failure;
use web::path_id::PathId;
use web::stranger::Stranger;

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
    if !matches!(link.purpose, Purpose::Click(_)) {
        return Err(no_such_link());
    }
    gateway.inboxes.report_click(&Caller::link_holder(link)).await?;
    Ok(HttpResponse::NoContent().finish())
}

fn no_such_link() -> Failure {
    Failure::not_found("no such link")
}
