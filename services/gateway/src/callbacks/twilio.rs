//! `/v3/callbacks/twilio/…`: what Twilio reports of messages, and messages that people send back.

use actix_web::web::Data;
use actix_web::{HttpRequest, HttpResponse};
use domain::sms::number::is_e164;
use domain::sms::twilio::of_undelivered;
use domain::{Answer, Channel, DeliveryId, Outcome};
use service_kit::clock;
use store::deliveries::receipt::{About, Receipt};

use super::account::{Account, Claim, subject};
use crate::gateway::{Gateway, database};
use crate::http::body::Body;
use crate::http::failure::Failure;
use crate::openapi::callback::{TwilioMessage, TwilioStatus};

/// Words by which people stop and start messages, where Twilio does not say so itself.
const STOP: [&str; 6] = ["STOP", "STOPALL", "UNSUBSCRIBE", "CANCEL", "END", "QUIT"];
const START: [&str; 3] = ["START", "YES", "UNSTOP"];

/// Reports what became of a message.
///
/// Twilio calls this by itself: the worker names the URL with each message, where `gateway.public_url` is set. The call
/// bears `X-Twilio-Signature`, made with the provider's `authToken`; repeated, late and out of order it does no harm.
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
        ("attempt" = Option<String>, Query, description = "The attempt that made the message."),
    ),
    request_body(content = TwilioStatus, content_type = "application/x-www-form-urlencoded"),
    responses(
        (status = 204, description = "It is recorded, or says nothing new."),
        (status = 400, description = "The body is no form, or has more than 200 fields.", body = crate::openapi::error::Problems),
        (status = 403, description = "The signature is wrong, or the provider has no secret to verify it with."),
        (status = 404, description = "The provider has no such delivery."),
        (status = 500, description = "A defect.", body = crate::openapi::error::Defect),
        (status = 429, description = "Too many callbacks come from this address."),
        (status = 503, description = "It cannot be taken now; repeat it."),
    ),
)]
pub(crate) async fn status(
    request: HttpRequest,
    gateway: Data<Gateway>,
    body: Body,
) -> Result<HttpResponse, Failure> {
    let claim = Claim::of(&gateway, &request).await?;
    let fields = body.callback_form().await?;
    let Account { app, provider } = claim.prove(&fields)?;
    let delivery = subject(&request).and_then(|id| id.parse::<DeliveryId>().ok()).ok_or_else(unknown)?;
    let states = database(gateway.store.delivery_states(&[(app, delivery)])).await?;
    let is_theirs = states
        .first()
        .is_some_and(|state| state.channel == Channel::Sms && state.provider.as_ref() == Some(&provider));
    if !is_theirs {
        return Err(unknown());
    }
    if let Some(answer) = answer(&fields) {
        let receipt = Receipt {
            id: clock::new_id(),
            app,
            about: About::Delivery(delivery, attempt(&request)),
            answer,
            at: clock::now(),
            random: clock::random(),
        };
        database(gateway.store.record_receipts(&[receipt], &gateway.callbacks.policy)).await?;
    }
    Ok(HttpResponse::NoContent().finish())
}

/// Returns the answer for a final status; None for any other.
fn answer(fields: &[(String, String)]) -> Option<Answer> {
    let status = field(fields, "MessageStatus").or_else(|| field(fields, "SmsStatus"))?;
    let code = field(fields, "ErrorCode").and_then(|code| code.parse::<u32>().ok());
    let outcome = match status {
        "delivered" | "read" => Outcome::Sent { provider_id: field(fields, "MessageSid").map(str::to_owned) },
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
/// For the account's messaging webhook. Who writes `STOP` gets no more messages of the app, until the same number writes
/// `START`: Twilio's `OptOutType` says so, or else the usual words. Other messages are taken and forgotten.
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
        (status = 204, description = "It is taken; nothing is answered to the sender."),
        (status = 400, description = "The body is no form, or has more than 200 fields.", body = crate::openapi::error::Problems),
        (status = 403, description = "The signature is wrong, or the provider has no secret to verify it with."),
        (status = 500, description = "A defect.", body = crate::openapi::error::Defect),
        (status = 429, description = "Too many callbacks come from this address."),
        (status = 503, description = "It cannot be taken now; repeat it."),
    ),
)]
pub(crate) async fn message(
    request: HttpRequest,
    gateway: Data<Gateway>,
    body: Body,
) -> Result<HttpResponse, Failure> {
    let claim = Claim::of(&gateway, &request).await?;
    let fields = body.callback_form().await?;
    let Account { app, .. } = claim.prove(&fields)?;
    if let Some(number) = field(&fields, "From").filter(|number| is_e164(number)) {
        match wish(&fields) {
            Some(Wish::Stop) => {
                let is_new = database(gateway.store.opt_out_of_sms(app, number)).await?;
                tracing::info!(%app, is_new, "a recipient wants no more short messages");
            }
            Some(Wish::Start) => {
                let was_stopped = database(gateway.store.opt_in_to_sms(app, number)).await?;
                tracing::info!(%app, was_stopped, "a recipient wants short messages");
            }
            None => {}
        }
    }
    Ok(HttpResponse::NoContent().finish())
}

enum Wish {
    Stop,
    Start,
}

fn wish(fields: &[(String, String)]) -> Option<Wish> {
    let said = match field(fields, "OptOutType").filter(|kind| !kind.is_empty()) {
        Some("STOP") => return Some(Wish::Stop),
        Some("START") => return Some(Wish::Start),
        Some(_) => return None,
        None => field(fields, "Body")?.trim().to_ascii_uppercase(),
    };
    match said.as_str() {
        word if STOP.contains(&word) => Some(Wish::Stop),
        word if START.contains(&word) => Some(Wish::Start),
        _ => None,
    }
}

fn field<'a>(fields: &'a [(String, String)], name: &str) -> Option<&'a str> {
    fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

/// 404 for a delivery, also for one of another app.
fn unknown() -> Failure {
    Failure::not_found("no such delivery")
}
