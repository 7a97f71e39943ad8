//! Reading of a request that sends: its body, query and headers.

use std::num::NonZeroU32;

use actix_web::HttpRequest;
use actix_web::web::block;
use domain::request::{Files, InvalidRequest, SendRules, parse_send};
use domain::{AppId, Problem, SendRequest};
use fairness::waiting::at_callers_pace;
use service_kit::clock;
use web::admission::RequestApp;
use web::body::{Body, MAX_BODY, is_large, too_large};
use web::deprecation;
use web::failure::{Failure, valid_or_problems};
use web::handling::Handling;
use web::query::Query;

use crate::access::caller::AppCaller;
use crate::gateway::Gateway;
use crate::sends::idempotency::{Idempotency, digest, header_key};
use crate::sends::volume::Limits;

/// A send with a valid body. Not checked yet: its times, and whether its template, providers and recipients exist.
pub(crate) struct Submission {
    pub(crate) app: AppId,
    pub(crate) send: Box<SendRequest>,
    /// Contents of the files.
    pub(crate) files: Files,
    /// Sends per second that the app may make in the transactional lane; None if the default applies.
    pub(crate) transactional_rate: Option<NonZeroU32>,
    /// Limits of the bytes that the app may add per day.
    pub(crate) volume_limits: Limits,
    /// True if an unknown provider in `override` makes the send invalid.
    pub(crate) strict: bool,
    /// Problems of `sendAt` and `expiresAt`. They are ignored if the idempotency key already belongs to a send.
    pub(crate) untimely: Vec<Problem>,
    pub(crate) reject_unknown: bool,
    pub(crate) idempotency: Option<Idempotency>,
}

/// Action that the caller requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Send,
    /// Show what the send would do.
    DryRun,
}

impl Gateway {
    /// Reads a request that sends. Reports all problems of the request at once.
    pub(crate) async fn read_submission(
        &self,
        caller: AppCaller,
        request: &HttpRequest,
        handling: Handling,
        query: Query,
        body: Body,
    ) -> Result<(Submission, Wanted), Failure> {
        let (body, size) = body.json_with_files().await?;
        let mut problems = Vec::new();
        let dry_run = query.flag("dryRun", &mut problems).unwrap_or(false);
        query.finish(handling, &mut problems);
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
                    problems.extend(self.unknown_template(caller.app, &template).await?);
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
            transactional_rate: RequestApp::of(request)
                .and_then(|request_app| request_app.transactional_rate()),
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
}
