//! `DELETE /v3/users/{identifier}`: a user is erased.

use actix_web::http::StatusCode;
use actix_web::web::Data;
use actix_web::{HttpRequest, HttpResponse};
use domain::event::UserErased;
use domain::id::partition;
use domain::{AppId, Envelope, Event, StreamName};
use service_kit::{clock, trace};
use store::deliveries::timer::NewTimer;

use crate::access::actor;
use crate::access::caller::AppCaller;
use crate::gateway::{Gateway, database};
use crate::http::failure::Failure;
use crate::http::path_id::PathId;
use crate::http::status_body::{StatusBody, status_body};
use crate::openapi::vocabulary::Identifier;

/// Erases a user.
///
/// Once this is answered, the user reads as unknown, and no send that was accepted before brings the user back or
/// reaches them. What is left in the inbox and of past deliveries goes soon after, what the event log holds with the
/// log's age. The same identifier may be used again, for a new user with an empty inbox.
#[utoipa::path(
    delete,
    path = "/v3/users/{identifier}",
    operation_id = "eraseUser",
    tag = "users",
    security(("app" = [])),
    params(("identifier" = Identifier, Path, description = "The user's identifier.")),
    responses(
        (status = 202, description = "The user is erased; what is left of them goes.", body = StatusBody),
        (status = 404, description = "There is no such user."),
    ),
)]
pub(crate) async fn erase(
    request: HttpRequest,
    caller: AppCaller,
    gateway: Data<Gateway>,
    id: PathId,
) -> Result<HttpResponse, Failure> {
    let identifier = id.user()?;
    let begun = database(gateway.store.erase_user(caller.app, &identifier, clock::now())).await?;
    let erasure = begun.ok_or_else(|| Failure::not_found("no such user"))?;
    let user = erasure.user();
    let word = gateway.word_for_the_inbox(caller.app, UserErased { user, digest: erasure.digest() })?;
    database(erasure.commit(&word, &actor::of(&request))).await?;
    tracing::info!(app = %caller.app, %user, "erased a user");
    Ok(status_body(StatusCode::ACCEPTED, "the user is erased; what is left of them will soon be gone"))
}

impl Gateway {
    /// The timer that tells the inbox at once. The log need not be there for a user to be erased.
    fn word_for_the_inbox(&self, app: AppId, erased: UserErased) -> Result<NewTimer, Failure> {
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
