//! `PATCH /v3/workflows/{identifier}`, with which published clients cancel the runs of a workflow.

use actix_web::HttpResponse;
use actix_web::web::Data;
use domain::Problem;
use domain::body::kind::{As, FreeObject, Identifier as IdentifierKind};
use domain::body::{Described, Schemas};
use serde_json::{Value, json};
use store::sends::cancellation_key::KeyedSends;
use web::body::{Body, read_members};
use web::failure::Failure;
use web::handling::Handling;
use web::path_id::PathId;

use crate::access::caller::AppCaller;
use crate::gateway::Gateway;
use crate::openapi::described;
use crate::openapi::vocabulary::Identifier;
use crate::sends::cancellation::KeyCancellationBody;

/// Schema that no value fits, so that a member may only be null.
#[derive(Debug)]
pub(crate) struct OnlyNull;

impl Described for OnlyNull {
    fn schema(_: &mut Schemas) -> Value {
        json!({"oneOf": [{"not": {}}]})
    }
}

domain::body! {
    /// The runs of a workflow to cancel.
    pub(crate) struct WorkflowRuns {
        /// `cancellationKey` of the sends.
        required cancellation_key as "cancellationKey": IdentifierKind,
        /// Refused: sends are cancelled for all their recipients.
        optional cancel_for as "cancelFor": As<OnlyNull, FreeObject>,
    }
    example {"cancellationKey": "order-7"}
}

/// Cancels the runs of a workflow.
///
/// A run is a send that names the workflow or template `identifier` and has the given `cancellationKey`. It is cancelled as
/// `DELETE /v3/requests?cancellationKey=` does. The call is also available as `PATCH /v4/workflows/{identifier}`.
#[utoipa::path(
    patch,
    path = "/v3/workflows/{identifier}",
    operation_id = "cancelWorkflow",
    tag = "requests",
    security(("app" = [])),
    params(("identifier" = Identifier, Path, description = "The identifier of the workflow or template.")),
    request_body = described::WorkflowRuns,
    responses(
        (status = 200, description = "The sends are cancelled.", body = KeyCancellationBody),
        (status = 404, description = "No send of this workflow has the key."),
    ),
)]
pub(crate) async fn cancel(
    caller: AppCaller,
    gateway: Data<Gateway>,
    id: PathId,
    handling: Handling,
    body: Body,
) -> Result<HttpResponse, Failure> {
    let body = body.json().await?;
    let identifier = id.workflow()?;
    let key = read_members(body, handling.strict, read)?;
    let sends = KeyedSends { app: caller.app, key: &key, template: Some(&identifier) };
    let cancelled = gateway.sends.cancel_keyed(&caller.backend, sends).await?;
    Ok(HttpResponse::Ok().json(KeyCancellationBody::from(cancelled)))
}

fn read(runs: &mut WorkflowRuns, problems: &mut Vec<Problem>) -> Option<String> {
    let key = runs.cancellation_key(problems);
    if runs.cancel_for(problems).is_some() {
        let message = "cancelFor is not supported: a send is cancelled for all its recipients; \
                       give sends to single recipients a cancellationKey each";
        problems.push(Problem::new("cancelFor", "not_allowed", message));
    }
    key
}
