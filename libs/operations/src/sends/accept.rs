//! Acceptance of a send. When it ends, the log has stored the send durably.

use std::time::Duration;

use domain::request::Files;
use domain::send::IdempotencyKey;
use domain::{AppId, Digest, Envelope, Event, Lane, SendId, SendRequest};
use fairness::principal::{Key, Proof};
use fairness::waiting::at_callers_pace;
use sabotage::CrashPoint;
use service_kit::{clock, metrics, trace};
use store::control::volume::VolumeQuota;
use store::sends::idempotency::{Reservation, ReservedSend};
use tokio::time::timeout;

use crate::error::Conflict;
use crate::publisher::Repetition;
use crate::sends::submission::{Idempotency, Submission};
use crate::waiting::database;
use crate::{Caller, OperationError, Permission, Sends};

/// Time limit for writing the files of a send to the database: this base, plus the same time again for each MiB of files.
const FILES_WITHIN: Duration = Duration::from_secs(1);

impl Sends {
    /// Accepts a send, and returns its id once the log has stored it durably.
    ///
    /// If the idempotency key already belongs to a send, the event of that send is published again under the same id. The log
    /// drops the duplicate. If the log no longer knows the id, the dispatcher publishes the stored plan again and does not make
    /// a new one.
    pub async fn accept(&self, caller: &Caller, submission: Submission) -> Result<SendId, OperationError> {
        caller.may(Permission::Send, submission.app)?;
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
        self.keep_cancellation_key(app, send_id, &send).await?;
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
    /// is not accepted afterwards, its files expire with the usual retention.
    async fn keep_files(
        &self,
        app: AppId,
        send_id: SendId,
        send: &SendRequest,
        files: Files,
    ) -> Result<(), OperationError> {
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
                Err(OperationError::later(message, "files not written in time"))
            }
        }
    }

    /// Writes the cancellation key of a send to the database, if it has one. This happens before the event of the send is published, so that
    /// a cancellation finds every accepted send.
    async fn keep_cancellation_key(
        &self,
        app: AppId,
        send_id: SendId,
        send: &SendRequest,
    ) -> Result<(), OperationError> {
        if send.cancellation_key.is_none() {
            return Ok(());
        }
        let now = clock::now();
        let from = send.send_at.map_or(now, |at| at.max(now));
        database(self.store.sends().keep_cancellation_key(app, send_id, send, from, self.retention)).await
    }

    /// Reserves the idempotency key for this send, or returns the send to which the key already belongs. In the second case,
    /// the result of the checks (`checked`) is ignored: that send was accepted before, and the template or category that it
    /// names may have been deleted since. Fails if the key was used with another body.
    async fn reserve(
        &self,
        wanted: Reservation,
        checked: Result<(), OperationError>,
    ) -> Result<ReservedSend, OperationError> {
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
        Err(OperationError::Conflict(Conflict::IdempotencyKeyReused))
    }
}
