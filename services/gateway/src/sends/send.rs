//! `POST /v3/notifications`: accepts a send.

use actix_web::web::{self, Data};
use actix_web::{HttpRequest, HttpResponse};
use domain::Problem;
use domain::request::{InvalidRequest, SendRules, parse_send};
use serde::Serialize;
use service_kit::clock;
use utoipa::ToSchema;

use crate::access::caller::AppCaller;
use crate::gateway::Gateway;
use crate::http::admission::RequestApp;
use crate::http::body::{Body, MAX_BODY, is_large, too_large};
use crate::http::deprecation;
use crate::http::failure::{Failure, valid_or_problems};
use crate::http::handling::Handling;
use crate::http::query::Query;
use crate::http::waiting::at_callers_pace;
use crate::openapi::send::SendBody;
use crate::openapi::vocabulary::Uuid;
use crate::sends::acceptance::Submission;
use crate::sends::dry_run::DryRun;
use crate::sends::idempotency::{Idempotency, digest, header_key};

/// Id of the accepted send. `GET /v3/requests/{requestId}` shows the status of the send.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({"requestId": "018f3c6e-7d1a-7cc2-b3a4-9a1f0f6f2b11"}))]
struct Accepted {
    #[schema(value_type = Uuid)]
    request_id: domain::SendId,
}

/// Accepts a send.
///
/// A 202 means that the send is durable and will not be lost. With `dryRun=true`, nothing is sent, stored or reserved, and
/// the answer shows the deliveries that the send would make.
#[utoipa::path(
    post,
    path = "/v3/notifications",
    operation_id = "send",
    tag = "sending",
    security(("app" = [])),
    params(
        ("dryRun" = Option<bool>, Query, description = "If true, the service sends nothing. It answers with the deliveries that the send would make, and with the reasons for skipped ones."),
        (
            "Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 255, pattern = "^[!-~]*$",
            description = "If a request repeats the key within 24 hours with an equal JSON body, the service gives the same answer and does not send again."
        ),
    ),
    request_body = SendBody,
    responses(
        (status = 200, description = "With `dryRun=true`: the deliveries that the send would make.", body = DryRun),
        (status = 202, description = "The send is accepted.", body = Accepted),
        (status = 409, description = "The Idempotency-Key was used with another body."),
    ),
)]
pub(crate) async fn send(
    caller: AppCaller,
    gateway: Data<Gateway>,
    request: HttpRequest,
    handling: Handling,
    query: Query,
    body: Body,
) -> Result<HttpResponse, Failure> {
    let (body, size) = body.json_with_files().await?;
    let mut problems = Vec::new();
    let dry_run = query.flag("dryRun", &mut problems).unwrap_or(false);
    query.finish(handling, &mut problems);
    let header_key = header_key(&request, &mut problems);
    let has_key = header_key.is_some() || body.get("idempotencyKey").is_some();
    let rules = SendRules { now: clock::now(), strict: handling.strict };
    let read = move || (has_key.then(|| digest(&body)), parse_send(body, rules));
    let (body_hash, parsed) = if is_large(size) {
        at_callers_pace(web::block(read)).await.map_err(|error| Failure::Defect(error.to_string()))?
    } else {
        read()
    };
    let parsed = match parsed {
        Ok(parsed) => Some(parsed),
        Err(InvalidRequest { problems: found, template }) => {
            problems.extend(found);
            if let Some(template) = template {
                problems.extend(gateway.unknown_template(caller.app, &template).await?);
            }
            None
        }
    };
    let body_key = parsed.as_ref().and_then(|parsed| parsed.idempotency_key.as_ref());
    if header_key.is_some() && body_key.is_some() && header_key.as_ref() != body_key {
        let message = "idempotencyKey and the header Idempotency-Key must be the same";
        problems.push(Problem::new("idempotencyKey", "conflict", message));
    }
    let parsed = valid_or_problems(parsed, problems)?;
    // Apart from its encoded files, a body must not exceed the limit for bodies without files.
    if is_large(size.saturating_sub(parsed.files.encoded)) {
        return Err(too_large(MAX_BODY));
    }
    if parsed.deprecated {
        deprecation::note(&request);
    }

    let key = header_key.or(parsed.idempotency_key);
    let idempotency = key.zip(body_hash).map(|(key, body_hash)| Idempotency { key, body_hash });
    let submission = Submission {
        app: caller.app,
        send: parsed.send,
        files: parsed.files,
        transactional_rate: RequestApp::of(&request).and_then(|request_app| request_app.transactional_rate()),
        strict: handling.strict,
        untimely: parsed.untimely,
        reject_unknown: parsed.reject_unknown,
        idempotency,
    };
    if dry_run {
        return Ok(HttpResponse::Ok().json(Box::pin(gateway.dry_run(submission)).await?));
    }
    let request_id = gateway.accept(submission).await?;
    Ok(HttpResponse::Accepted().json(Accepted { request_id }))
}
