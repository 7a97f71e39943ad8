//! `/v3/callbacks/twilio/…`: Twilio's reports about messages, and messages that people send to the account's numbers.

use actix_web::web::Data;
use actix_web::{HttpRequest, HttpResponse};
use domain::body::{ObjectSchema, Presence, json, named};
use domain::sms::keyword::{AddedKeywords, Keyword};
use domain::sms::number::is_e164;
use domain::sms::twilio::of_undelivered;
use domain::{Answer, DeliveryId, Outcome};
use operations::receipts::{self, Report};
use serde_json::Value;
use web::body::Body;
use web::failure::Failure;

use super::account::{Callback, Claim, subject};
use crate::gateway::Gateway;
use crate::openapi::described::{TwilioMessage, TwilioStatus};

/// Name and description of a field of a form.
type FormField = (&'static str, &'static str);

const MESSAGE_STATUS: FormField = (
    "MessageStatus",
    "`delivered`, `read`, `undelivered` and `failed` are final; the service ignores every other status.",
);
const ERROR_CODE: FormField = ("ErrorCode", "Twilio's error code, if the message was not delivered.");
const MESSAGE_SID: FormField = ("MessageSid", "Twilio's id of the message.");
const FROM: FormField = ("From", "Phone number of the sender.");
const BODY: FormField = ("Body", "Text of the message.");
const OPT_OUT_TYPE: FormField =
    ("OptOutType", "`STOP`, `START` or `HELP`, if the account lets Twilio detect opt-outs.");

domain::schemas! {
    /// A status callback of Twilio.
    pub(crate) StatusForm = |schemas| named(schemas, "TwilioStatus", |_| {
        let example = json!({"MessageSid": "SM0123456789abcdef0123456789abcdef", "MessageStatus": "undelivered",
            "ErrorCode": "30003"});
        form("A status callback of Twilio.", [MESSAGE_STATUS, ERROR_CODE, MESSAGE_SID], example)
    });
    /// A message that a person sent to one of the account's numbers.
    pub(crate) MessageForm = |schemas| named(schemas, "TwilioMessage", |_| {
        let about = "A message that a person sent to one of the account's numbers.";
        let example = json!({"From": "+4915112345678", "Body": "STOP", "OptOutType": "STOP"});
        form(about, [FROM, BODY, OPT_OUT_TYPE], example)
    });
}

fn form(about: &str, fields: [FormField; 3], example: Value) -> Value {
    let mut form = ObjectSchema::new(&[about]);
    for (name, about) in fields {
        form.add(name, Presence::Optional, &[about], json!({"type": "string"}));
    }
    let mut schema = form.finish();
    schema["example"] = example;
    schema
}

/// Reports the status of a message.
///
/// Twilio calls this URL. If `gateway.public_url` is set, the worker passes the URL to Twilio with each message. The call must
/// carry `X-Twilio-Signature`, made with the provider's `authToken`. Calls may be repeated, late or out of order.
#[utoipa::path(
    post,
    path = "/v3/callbacks/twilio/{app}/{provider}/{delivery}",
    operation_id = "reportTwilioStatus",
    tag = "callbacks",
    security(()),
    params(
        ("app" = String, Path, description = "The app's id."),
        ("provider" = String, Path, description = "The provider's identifier."),
        ("delivery" = String, Path, description = "The delivery's id."),
        ("attempt" = Option<String>, Query, description = "Number of the attempt that sent the message."),
    ),
    request_body(content = TwilioStatus, content_type = "application/x-www-form-urlencoded"),
    responses(
        (status = 204, description = "The status is recorded, or was already known."),
        (status = 403, description = "The signature is missing, wrong, or cannot be verified, for example because the body is no form of at most 16 KiB and 200 fields."),
        (status = 404, description = "The provider has no such delivery."),
        (status = 500, description = "An internal error.", body = web::failure::DefectBody),
        (status = 429, description = "Too many callbacks from this address."),
        (status = 503, description = "The service cannot accept the callback now; retry."),
    ),
)]
pub(crate) async fn status(
    request: HttpRequest,
    gateway: Data<Gateway>,
    body: Body,
) -> Result<HttpResponse, Failure> {
    let claim = Claim::of(&gateway, &request).await?;
    let Callback { caller, fields, .. } = claim.prove(body).await?;
    let delivery = subject(&request).and_then(|id| id.parse::<DeliveryId>().ok()).ok_or_else(unknown)?;
    let report = Report { delivery, attempt: attempt(&request), answer: answer(&fields) };
    receipts::record(&gateway.operations, &caller, report, &gateway.callbacks.policy).await?;
    Ok(HttpResponse::NoContent().finish())
}

/// Converts a final status to the answer to record for the attempt. None for any other status.
fn answer(fields: &[(String, String)]) -> Option<Answer> {
    let status = field(fields, MESSAGE_STATUS.0).or_else(|| field(fields, "SmsStatus"))?;
    let code = field(fields, ERROR_CODE.0).and_then(|code| code.parse::<u32>().ok());
    let outcome = match status {
        "delivered" | "read" => {
            Outcome::Sent { provider_id: field(fields, MESSAGE_SID.0).map(str::to_owned) }
        }
        "undelivered" | "failed" => of_undelivered(code),
        _ => return None,
    };
    Some(Answer::new(outcome, code.map_or_else(|| status.to_owned(), |code| code.to_string()), status))
}

fn attempt(request: &HttpRequest) -> Option<u32> {
    let pairs = request.query_string().split('&');
    pairs.filter_map(|pair| pair.strip_prefix("attempt=")).find_map(|number| number.parse().ok())
}

/// Receives a message that a person sent to the account's number.
///
/// Set this URL as the account's messaging webhook. If a person writes `STOP`, the service sends none of the app's SMS to the
/// person's number until the person writes `START` from it. The service reads Twilio's `OptOutType`; if it is missing, the
/// service compares the text with the keywords of `docs/providers.md`. All other messages are accepted and ignored.
#[utoipa::path(
    post,
    path = "/v3/callbacks/twilio/{app}/{provider}/messages",
    operation_id = "takeTwilioMessage",
    tag = "callbacks",
    security(()),
    params(
        ("app" = String, Path, description = "The app's id."),
        ("provider" = String, Path, description = "The provider's identifier."),
    ),
    request_body(content = TwilioMessage, content_type = "application/x-www-form-urlencoded"),
    responses(
        (status = 204, description = "The message is accepted; the sender gets no reply."),
        (status = 403, description = "The signature is missing, wrong, or cannot be verified, for example because the body is no form of at most 16 KiB and 200 fields."),
        (status = 500, description = "An internal error.", body = web::failure::DefectBody),
        (status = 429, description = "Too many callbacks from this address."),
        (status = 503, description = "The service cannot accept the callback now; retry."),
    ),
)]
pub(crate) async fn message(
    request: HttpRequest,
    gateway: Data<Gateway>,
    body: Body,
) -> Result<HttpResponse, Failure> {
    let claim = Claim::of(&gateway, &request).await?;
    let Callback { caller, keywords, fields } = claim.prove(body).await?;
    if let Some(number) = field(&fields, FROM.0).filter(|number| is_e164(number))
        && let Some(keyword) = keyword(&fields, number, &keywords)
    {
        receipts::obey_keyword(&gateway.operations, &caller, number, keyword).await?;
    }
    Ok(HttpResponse::NoContent().finish())
}

/// Returns the keyword that Twilio has recognised, or else that the text is.
fn keyword(fields: &[(String, String)], number: &str, added: &AddedKeywords) -> Option<Keyword> {
    match field(fields, OPT_OUT_TYPE.0).filter(|kind| !kind.is_empty()) {
        Some("STOP") => Some(Keyword::Stop),
        Some("START") => Some(Keyword::Start),
        Some("HELP") => Some(Keyword::Help),
        Some(_) => None,
        None => Keyword::of(field(fields, BODY.0)?, number, added),
    }
}

fn field<'a>(fields: &'a [(String, String)], name: &str) -> Option<&'a str> {
    fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

/// Creates the 404 for an unknown delivery, also for a delivery of another app.
fn unknown() -> Failure {
    Failure::not_found("no such delivery")
}
