//! `POST /v3/notifications`: accepts a send. A 202 means that the log has stored it durably.

use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::web::Data;
use actix_web::{HttpRequest, HttpResponse};
use domain::request::Files;
use domain::send::IdempotencyKey;
use domain::{AppId, Digest, Envelope, Event, Lane, SendId, SendRequest};
use fairness::principal::{Key, Proof};
use fairness::waiting::at_callers_pace;
use sabotage::CrashPoint;
use serde::Serialize;
use service_kit::{clock, metrics, trace};
use store::control::volume::VolumeQuota;
use store::sends::idempotency::{Reservation, ReservedSend};
use tokio::time::timeout;
use utoipa::ToSchema;
use web::body::Body;
use web::database::database;
use web::failure::Failure;
use web::handling::Handling;
use web::query::Query;

use crate::access::caller::AppCaller;
use crate::gateway::Gateway;
use crate::openapi::send::SendBody;
use crate::openapi::vocabulary::Uuid;
use crate::publisher::Repetition;
use crate::sends::dry_run::DryRun;
use crate::sends::idempotency::Idempotency;
use crate::sends::submission::{Submission, Wanted};

/// Time limit for writing the files of a send to the database: this base, plus the same time again for each MiB of files.
const FILES_WITHIN: Duration = Duration::from_secs(1);

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
/// the answer shows the deliveries that the send would make. A 429 with the code `quota_reached` means that the app has reached
/// its quota of bytes within 24 hours; `Retry-After` says when it may send again.
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
    let (submission, wanted) = gateway.read_submission(caller, &request, handling, query, body).await?;
    match wanted {
        Wanted::DryRun => Ok(HttpResponse::Ok().json(Box::pin(gateway.dry_run(submission)).await?)),
        Wanted::Send => {
            let request_id = gateway.accept(submission).await?;
            Ok(HttpResponse::Accepted().json(Accepted { request_id }))
        }
    }
}

impl Gateway {
    /// Accepts a send, and returns its id once the log has stored it durably.
    ///
    /// If the idempotency key already belongs to a send, the event of that send is published again under the same id. The log
    /// drops the duplicate. If the log no longer knows the id, the dispatcher publishes the stored plan again and does not make
    /// a new one.
    pub(crate) async fn accept(&self, submission: Submission) -> Result<SendId, Failure> {
        let checked = self.check(&submission).await;
        let lane = self.lane(&submission).await;
        let Submission { app, mut send, files, idempotency, volume_limits, .. } = submission;
        send.lane = lane;
        let mut send_id = SendId(clock::new_id());
        let mut repeats = Repetition::Impossible;
        match idempotency {
            None => checked?,
            Some(Idempotency { key, body_hash }) => {
                send.idempotency = Some(IdempotencyKey { key: key.clone(), body_hash: Digest(body_hash) });
                let wanted = ReservedSend { send_id, body_hash, lane: send.lane };
                let reserved = self.reserve(Reservation { app, key, send: wanted }, checked).await?;
                let is_new = reserved.send_id == send_id;
                repeats = if is_new { Repetition::Possible } else { Repetition::Actual };
                (send_id, send.lane) = (reserved.send_id, reserved.lane);
            }
        }
        let size = files.contents.iter().map(Vec::len).sum();
        self.publisher.volumes.charge(app, VolumeQuota::Files, size, volume_limits, None)?;
        if let Err(failure) = self.keep_files(app, send_id, &send, files).await {
            self.publisher.volumes.release(app, VolumeQuota::Files, size);
            return Err(failure);
        }
        let lane = send.lane;
        let accepted = Envelope {
            id: send_id.0,
            app,
            at: clock::now(),
            send_id: Some(send_id),
            caused_by: None,
            trace: trace::current_traceparent(),
            event: Event::SendAccepted(send),
        };
        self.publisher.append_send(lane, &accepted, repeats, volume_limits).await?;
        sabotage::reach(CrashPoint::AfterPublish);
        ::metrics::counter!(metrics::ACCEPTED, "lane" => lane.as_str()).increment(1);
        tracing::debug!(%send_id, %app, %lane, "accepted a send");
        Ok(send_id)
    }

    /// Returns the lane of a send. If an app exceeds its rate of transactional sends, its send goes to the bulk lane, so that
    /// no app delays the sends of other apps.
    async fn lane(&self, submission: &Submission) -> Lane {
        let Submission { app, send, transactional_rate, .. } = submission;
        if send.lane == Lane::Bulk {
            return Lane::Bulk;
        }
        let rate = transactional_rate.unwrap_or(self.transactional_rate);
        match self.transactional_rates.count(Proof::Secret, Key::App(*app), rate).await.retry_after {
            None => Lane::Transactional,
            Some(_) => Lane::Bulk,
        }
    }

    /// Writes the files of a send to the database. This happens before the event that refers to them is published. If the send
    /// is not accepted afterwards, its files expire with the usual retention. 503 if the database takes too long.
    async fn keep_files(
        &self,
        app: AppId,
        send_id: SendId,
        send: &SendRequest,
        files: Files,
    ) -> Result<(), Failure> {
        if files.contents.is_empty() {
            return Ok(());
        }
        let now = clock::now();
        let from = send.send_at.map_or(now, |at| at.max(now));
        let written =
            self.store.deliveries().keep_attachments(app, send_id, &files.contents, from, self.retention);
        let mebibytes = files.contents.iter().map(Vec::len).sum::<usize>().div_ceil(1024 * 1024);
        let limit = FILES_WITHIN + FILES_WITHIN * u32::try_from(mebibytes).unwrap_or(u32::MAX);
        // The caller determines the size of the files, so the duration does not count against the waiting time of the request.
        match at_callers_pace(timeout(limit, Box::pin(written))).await {
            Ok(written) => Ok(written?),
            Err(_) => {
                let message = "the database did not store the files in time; repeat the request";
                Err(Failure::unavailable(message, "files not written in time"))
            }
        }
    }

    /// Reserves the idempotency key for this send, or returns the send to which the key already belongs. In the second case,
    /// the result of the checks (`checked`) is ignored: that send was accepted before, and the template or category that it
    /// names may have been deleted since. 409 if the key was used with another body.
    async fn reserve(
        &self,
        wanted: Reservation,
        checked: Result<(), Failure>,
    ) -> Result<ReservedSend, Failure> {
        let body_hash = wanted.send.body_hash;
        let reserved = match checked {
            Ok(()) => database(self.reservations.call(wanted)).await?,
            Err(refusal) => {
                database(self.store.sends().reserved_key(wanted.app, &wanted.key)).await?.ok_or(refusal)?
            }
        };
        if reserved.body_hash == body_hash {
            return Ok(reserved);
        }
        let message = "the Idempotency-Key was used with another body within 24 hours";
        Err(Failure::refused(StatusCode::CONFLICT, "idempotency_key_reused", message))
    }
}
