//! The first send of an app, which an operator makes to see that it works.

use domain::fields::check_identifier;
use domain::request::{SendRules, parse_send};
use domain::{Problem, SendId};
use serde_json::json;
use service_kit::clock;
use store::control::app::App;

use super::Sends;
use crate::sends::submission::Submission;
use crate::{Caller, OperationError, Permission};

/// Body of the send that an operator makes to an address. Apps send the same to the API.
#[must_use]
pub fn body(recipient: &str, email: &str) -> serde_json::Value {
    json!({
        "notification": {
            "title": "It works",
            "message": "This message came through Tidings: from the API, over the log, to a worker and its provider.",
        },
        "sendTo": {"recipients": [{"identifier": recipient, "email": email}]},
    })
}

impl Sends {
    /// Sends a message to an address, on the same path as a call of the API. The recipient is created if it does not exist.
    ///
    /// # Errors
    /// Returns [`OperationError::Invalid`] if the identifier or the address is not valid.
    pub async fn try_out(
        &self,
        caller: &Caller,
        app: &App,
        recipient: &str,
        email: &str,
    ) -> Result<SendId, OperationError> {
        caller.may(Permission::Send, app.id)?;
        let mut problems = Vec::new();
        if check_identifier("the identifier", recipient.to_owned(), &mut problems).is_none() {
            return Err(OperationError::Invalid(problems));
        }
        if !email.contains('@') {
            let message = "the email address needs an @";
            return Err(OperationError::Invalid(vec![Problem::new("email", "invalid", message)]));
        }
        let rules = SendRules { now: clock::now(), strict: true };
        let parsed = parse_send(body(recipient, email), rules);
        let parsed = parsed.map_err(|invalid| OperationError::Invalid(invalid.problems))?;
        let submission = Submission {
            app: app.id,
            send: Box::new(parsed.send),
            files: parsed.files,
            transactional_rate: app.settings.transactional_rate,
            volume_limits: [app.settings.max_send_megabytes, app.settings.max_file_megabytes],
            strict: true,
            untimely: parsed.untimely,
            reject_unknown: parsed.reject_unknown,
            idempotency: None,
        };
        self.accept(caller, submission).await
    }
}
