//! Reading of a request that sends: its body, query and headers.

use actix_web::HttpRequest;
use actix_web::web::block;
use domain::Problem;
use domain::request::{InvalidRequest, SendRules, parse_send};
use fairness::waiting::at_callers_pace;
use operations::Sends;
use operations::sends::submission::{Idempotency, Submission};
use service_kit::clock;
use web::admission::RequestApp;
use web::body::{Body, MAX_BODY, is_large, too_large};
use web::deprecation;
use web::failure::{Failure, valid_or_problems};
use web::handling::Handling;
use web::query::Query;

use crate::access::caller::AppCaller;
use crate::sends::idempotency::{digest, header_key};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Send,
    /// Show what the send would do.
    DryRun,
}

/// Reads a request that sends. Reports all problems of the request at once.
pub(crate) async fn read(
    sends: &Sends,
    caller: &AppCaller,
    request: &HttpRequest,
    handling: Handling,
    query: Query,
    body: Body,
) -> Result<(Submission, Wanted), Failure> {
    let (body, size) = body.json_with_files().await?;
    let mut problems = Vec::new();
    let dry_run = query.flag("dryRun", &mut problems).unwrap_or(false);
    query.finish(&mut problems);
    let header_key = header_key(request, &mut problems);
    let has_key = header_key.is_some() || body.get("idempotencyKey").is_some();
    let rules = SendRules { now: clock::now(), strict: handling.strict };
    let read = move || (has_key.then(|| digest(&body)), parse_send(body, rules));
    let (body_hash, parsed) = if is_large(size) {
        at_callers_pace(block(read)).await.map_err(|error| Failure::Defect(error.to_string()))?
    } else {
        read()
    };
    let parsed = match parsed {
        Ok(parsed) => Some(parsed),
        Err(InvalidRequest { problems: found, template }) => {
            problems.extend(found);
            if let Some(template) = template {
                problems.extend(sends.unknown_template(&caller.backend, caller.app, &template).await?);
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
        deprecation::note(request);
    }

    let key = header_key.or(parsed.idempotency_key);
    let idempotency = key.zip(body_hash).map(|(key, body_hash)| Idempotency { key, body_hash });
    let submission = Submission {
        app: caller.app,
        send: Box::new(parsed.send),
        files: parsed.files,
        transactional_rate: RequestApp::of(request).and_then(|request_app| request_app.transactional_rate()),
        volume_limits: RequestApp::of(request)
            .map(|request_app| request_app.volume_limits())
            .unwrap_or_default(),
        strict: handling.strict,
        untimely: parsed.untimely,
        reject_unknown: parsed.reject_unknown,
        idempotency,
    };
    Ok((submission, if dry_run { Wanted::DryRun } else { Wanted::Send }))
}
