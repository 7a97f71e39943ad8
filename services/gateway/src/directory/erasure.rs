//! `DELETE /v3/users/{identifier}`: erasure of a user.

use actix_web::http::StatusCode;
use actix_web::web::Data;
use actix_web::{HttpRequest, HttpResponse};
use domain::event::UserErased;
use domain::id::partition;
use domain::{AppId, Envelope, Event, StreamName};
use service_kit::{clock, trace};
use store::deliveries::timer::NewTimer;
use web::database::database;
use web::failure::Failure;
use web::path_id::PathId;
use web::status_body::{StatusBody, status_body};

use crate::access::actor;
use crate::access::caller::AppCaller;
use crate::gateway::Gateway;
use crate::openapi::vocabulary::Identifier;

/// Erases a user.
///
/// Once this call is answered, the user is unknown, and no earlier send can recreate or reach the user. The inbox and the past
/// deliveries are deleted soon after. Messages in the event log are deleted at the end of the log's retention. The identifier
/// may be used again for a new user with an empty inbox.
#[utoipa::path(
    delete,
    path = "/v3/users/{identifier}",
    operation_id = "eraseUser",
    tag = "users",
    security(("app" = [])),
    params(("identifier" = Identifier, Path, description = "The user's identifier.")),
    responses(
        (status = 202, description = "The user is erased; the remaining data is deleted soon.", body = StatusBody),
        (status = 404, description = "The user does not exist."),
    ),
)]
pub(crate) async fn erase(
    request: HttpRequest,
    caller: AppCaller,
    gateway: Data<Gateway>,
    id: PathId,
) -> Result<HttpResponse, Failure> {
    let identifier = id.user()?;
    let begun = database(gateway.store.erasure().erase_user(caller.app, &identifier, clock::now())).await?;
    let erasure = begun.ok_or_else(|| Failure::not_found("no such user"))?;
    let user = erasure.user();
    let timer = gateway.erasure_timer(caller.app, UserErased { user, digest: erasure.digest() })?;
    database(erasure.commit(&timer, &actor::of(&request))).await?;
    tracing::info!(app = %caller.app, %user, "erased a user");
    Ok(status_body(StatusCode::ACCEPTED, "the user is erased; the remaining data is deleted soon"))
}

impl Gateway {
    /// Creates a timer, due now, that publishes the erasure to the inbox's stream. With a timer, an erasure succeeds even while
    /// the log is unavailable.
    fn erasure_timer(&self, app: AppId, erased: UserErased) -> Result<NewTimer, Failure> {
        let (id, now, user) = (clock::new_id(), clock::now(), erased.user);
        let event = Envelope {
            id,
            app,
            at: now,
            send_id: None,
            caused_by: None,
            trace: trace::current_traceparent(),
            event: Event::UserErased(erased),
        };
        let message = event.encode().map_err(|error| Failure::Defect(error.to_string()))?;
        let stream = StreamName::Inbox(partition(app, user, self.partitions));
        Ok(NewTimer { id, due_at: now, stream, message, app, send_id: None, user: None })
    }
}
