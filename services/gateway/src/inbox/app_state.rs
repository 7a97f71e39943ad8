//! `PUT /v3/notifications/{id}/state`: the app-defined state of a notification.

use actix_web::HttpResponse;
use actix_web::web::Data;
use domain::Problem;
use domain::body::Body as _;
use domain::body::kind::{As, Filled, Text};
use domain::fields::check_plain_json;
use serde_json::Value;
use web::body::Body;
use web::failure::{Failure, valid_or_problems};
use web::handling::Handling;
use web::path_id::PathId;
use web::status_body::StatusBody;

use crate::access::caller::Caller;
use crate::gateway::Gateway;
use crate::inbox::item::shown;
use crate::inbox::notification::Notification;
use crate::openapi::described;
use crate::openapi::vocabulary::Id;

/// Maximum length of a state in bytes.
pub(crate) const MAX_STATE: usize = 64;

domain::body! {
    /// App-defined state of a notification.
    pub(crate) struct NewState {
        /// No control characters; null removes the state.
        nullable state: As<Filled<MAX_STATE>, Text<MAX_STATE>>,
    }
    example {"state": "done"}
}

/// Sets or removes the app-defined state of a notification.
///
/// The app chooses the text of the state, for example `done`. `null` removes the state.
#[utoipa::path(
    put,
    path = "/v3/notifications/{id}/state",
    operation_id = "setNotificationState",
    tag = "inbox",
    security(("either" = [])),
    params(("id" = Id, Path, description = "The notification's id.")),
    request_body = described::NewState,
    responses(
        (status = 200, description = "The notification, with its new state.", body = Notification),
        (status = 202, description = "The change is stored and soon visible.", body = StatusBody),
    ),
)]
pub(crate) async fn set(
    caller: Caller,
    gateway: Data<Gateway>,
    id: PathId,
    handling: Handling,
    body: Body,
) -> Result<HttpResponse, Failure> {
    let state = read_state(body.json().await?, handling)?;
    shown(gateway.inboxes.set_state(&caller.caller, caller.app, id.item()?, state).await?)
}

/// Reads the member `state`. Null removes the state; a missing member is a 400 (`required`).
fn read_state(body: Value, handling: Handling) -> Result<Option<String>, Failure> {
    let mut problems = Vec::new();
    check_plain_json("", &body, &mut problems);
    let is_removal = body.get("state").is_some_and(Value::is_null);
    let state = NewState::open("", body, &mut problems).and_then(|mut body| {
        let before = problems.len();
        let state = body.state(&mut problems);
        body.fields.finish(handling.strict, &mut problems);
        match state {
            Some(state) => check_state(state, &mut problems).map(Some),
            None if is_removal => Some(None),
            None => {
                if problems.len() == before {
                    let message = "state is required: a string, or null for none";
                    problems.push(Problem::new("state", "required", message));
                }
                None
            }
        }
    });
    valid_or_problems(state, problems)
}

fn check_state(state: String, problems: &mut Vec<Problem>) -> Option<String> {
    let problem = if state.is_empty() {
        Problem::new("state", "empty", "state must not be empty; null removes it")
    } else if state.chars().any(char::is_control) {
        Problem::new("state", "invalid_character", "state must not contain control characters")
    } else {
        return Some(state);
    };
    problems.push(problem);
    None
}
