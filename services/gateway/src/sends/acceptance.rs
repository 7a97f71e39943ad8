//! Acceptance of a send: checks against the app's data, reservation of the idempotency key, and publication of the event.

use std::collections::HashSet;
use std::num::NonZeroU32;
use std::time::Duration;

use actix_web::http::StatusCode;
use domain::request::Files;
use domain::send::{IdempotencyKey, TemplateRef};
use domain::{AppId, Digest, Envelope, Event, Lane, Problem, SendId, SendRequest};
use sabotage::CrashPoint;
use service_kit::{clock, metrics, trace};
use store::sends::idempotency::{Reservation, ReservedSend};
use tokio::time::timeout;

use crate::gateway::{Gateway, Repetition};
use crate::http::failure::Failure;
use crate::http::shares::holder::{Key, Proof};
use crate::http::waiting::{at_callers_pace, database};
use crate::sends::idempotency::Idempotency;

/// Time limit for writing the files of a send to the database: this base, plus the same time again for each MiB of files.
const FILES_WITHIN: Duration = Duration::from_secs(1);

/// A send with a valid body. Not checked yet: its times, and whether its template, providers and recipients exist.
pub(crate) struct Submission {
    pub(crate) app: AppId,
    pub(crate) send: SendRequest,
    /// Contents of the files.
    pub(crate) files: Files,
    /// Sends per second that the app may make in the transactional lane; None if the default applies.
    pub(crate) transactional_rate: Option<NonZeroU32>,
    /// True if an unknown provider in `override` makes the send invalid.
    pub(crate) strict: bool,
    /// Problems of `sendAt` and `expiresAt`. They are ignored if the idempotency key already belongs to a send.
    pub(crate) untimely: Vec<Problem>,
    pub(crate) reject_unknown: bool,
    pub(crate) idempotency: Option<Idempotency>,
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
        let Submission { app, mut send, files, idempotency, .. } = submission;
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
        self.keep_files(app, send_id, &send, files).await?;
        let lane = send.lane;
        let accepted = Envelope {
            id: send_id.0,
            app,
            at: clock::now(),
            send_id: Some(send_id),
            caused_by: None,
            trace: trace::current_traceparent(),
            event: Event::SendAccepted(Box::new(send)),
        };
        self.append_send(lane, &accepted, repeats).await?;
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
        match at_callers_pace(timeout(limit, written)).await {
            Ok(written) => Ok(written?),
            Err(_) => {
                let message = "the database did not store the files in time; repeat the request";
                Err(Failure::unavailable(message, "files not written in time"))
            }
        }
    }

    /// Checks the times, the template and the category of a send. With `reject_unknown`, it also checks the recipients and
    /// topics; with `strict`, also the topics and the providers in `override`. It reads the template from the database and not from a cache, because the
    /// app may have created the template a moment ago.
    pub(crate) async fn check(&self, submission: &Submission) -> Result<(), Failure> {
        let Submission { app, send, .. } = submission;
        let mut problems = submission.untimely.clone();
        if let Some(template) = &send.template {
            problems.extend(self.unknown_template(*app, template).await?);
        }
        if let Some(category) = &send.category {
            self.categories.check(&self.store, *app, category).await?;
        }
        if submission.reject_unknown {
            problems.extend(self.unknown_recipients(*app, send).await?);
        }
        if (submission.strict || submission.reject_unknown) && send.has_topics() {
            let unknown = database(self.store.directory().unknown_topics(*app, &send.topics)).await?;
            problems.extend(unknown.iter().map(|topic| unknown_topic(topic)));
        }
        if submission.strict && !send.overrides.providers.is_empty() {
            problems.extend(self.unknown_providers(*app, send).await?);
        }
        if problems.is_empty() { Ok(()) } else { Err(Failure::Invalid(problems)) }
    }

    /// Returns a problem if the app has no such template.
    pub(crate) async fn unknown_template(
        &self,
        app: AppId,
        template: &TemplateRef,
    ) -> Result<Option<Problem>, Failure> {
        let found = database(self.store.control().find_template(app, template)).await?;
        Ok(found.is_none().then(|| unknown_template(template)))
    }

    /// Returns a problem for each unknown recipient. A recipient with an inline profile is never unknown, because the send
    /// creates that user.
    async fn unknown_recipients(&self, app: AppId, send: &SendRequest) -> Result<Vec<Problem>, Failure> {
        let plain = send.recipients.iter().filter(|recipient| recipient.profile.is_none());
        let named: Vec<&str> = plain.map(|recipient| recipient.identifier.as_str()).collect();
        let known: HashSet<String> =
            database(self.store.directory().known_identifiers(app, &named)).await?.into_iter().collect();
        let unknown = named.into_iter().filter(|identifier| !known.contains(*identifier));
        Ok(unknown.map(unknown_recipient).collect())
    }

    /// Returns a problem for each provider in `override` that the app does not have.
    async fn unknown_providers(&self, app: AppId, send: &SendRequest) -> Result<Vec<Problem>, Failure> {
        let known = database(self.store.control().list_providers(app)).await?;
        let named = send.overrides.providers.keys();
        let unknown = named.filter(|named| known.iter().all(|provider| provider.identifier != **named));
        Ok(unknown.map(|named| unknown_provider(named)).collect())
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

fn unknown_template(template: &TemplateRef) -> Problem {
    let (field, name) = match template {
        TemplateRef::Identifier(identifier) => ("notification.templateIdentifier", identifier.clone()),
        TemplateRef::Id(id) => ("notification.templateId", id.to_string()),
    };
    Problem::new(field, "unknown_template", format!("{field}: the template {name:?} does not exist"))
}

fn unknown_provider(identifier: &str) -> Problem {
    let field = format!("override.{identifier}");
    let message =
        format!("{field} is neither a member of override nor the identifier of a provider of the app");
    Problem::new(field, "unknown_member", message)
}

fn unknown_topic(identifier: &str) -> Problem {
    let message = format!("sendTo.topics: the topic {identifier:?} does not exist");
    Problem::new("sendTo.topics", "unknown_topic", message)
}

fn unknown_recipient(identifier: &str) -> Problem {
    let message = format!("sendTo.recipients: the user {identifier:?} does not exist");
    Problem::new("sendTo.recipients", "unknown_recipient", message)
}
