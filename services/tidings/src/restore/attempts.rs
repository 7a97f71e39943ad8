//! The next attempt of a stranded delivery, created from its job in the log or in the backup.

use anyhow::Context as _;
use domain::event::DeliveryJob;
use domain::{Envelope, Event};
use event_log::EventLog;
use service_kit::clock;
use store::deliveries::timer::NewTimer;
use store::recovery::restore::{LastJob, Stranded, StrandedAs};
use uuid::Uuid;

/// Result of recovering a stranded delivery.
pub(super) enum PutBack {
    /// The delivery is attempted at once.
    Timer(NewTimer),
    /// The delivery is parked again.
    Parked(Stranded, Vec<u8>),
    /// The log no longer contains the job, so the delivery cannot continue.
    Gone,
}

/// Creates the next attempt of a stranded delivery.
pub(super) async fn put_back(log: &EventLog, stranded: Stranded) -> anyhow::Result<PutBack> {
    let found = match &stranded.job {
        LastJob::Kept(message) => Envelope::decode(message),
        LastJob::InLog(seq) => match log.message(stranded.stream, *seq).await? {
            Some(record) => Envelope::decode(&record.payload),
            None => return Ok(PutBack::Gone),
        },
    };
    let mut envelope = found.context("cannot decode a job that was decoded before")?;
    let Event::DeliveryJob(job) = &mut envelope.event else { return Ok(PutBack::Gone) };
    if stranded.stranded != StrandedAs::HandedOut {
        job.attempt = stranded.attempt;
        bind_provider(job, &stranded);
    }
    if stranded.stranded == StrandedAs::Parked {
        job.limited_retries = 0;
    }
    let now = clock::now();
    let id = Uuid::new_v5(&stranded.delivery.0, name(&stranded).as_bytes());
    (envelope.caused_by, envelope.id, envelope.at) = (Some(envelope.id), id, now);
    let message = envelope.encode().context("cannot encode the next attempt")?;
    if stranded.stranded == StrandedAs::Parked {
        return Ok(PutBack::Parked(stranded, message));
    }
    let Stranded { app, send_id, user, stream, .. } = stranded;
    Ok(PutBack::Timer(NewTimer {
        id,
        due_at: now,
        stream,
        message,
        app,
        send_id: Some(send_id),
        user: Some(user),
    }))
}

/// Binds the job to the provider of its last attempt. That provider may have accepted the message, so no other may be called; the
/// log does not record whether the delivery had moved on to another one. If the provider's receipt reported that the message was
/// not delivered (the backup then contains the job), the job is unbound instead. A job that was already bound stays bound: no
/// other provider has been called since.
fn bind_provider(job: &mut DeliveryJob, stranded: &Stranded) {
    match (&stranded.job, &stranded.provider) {
        (LastJob::Kept(_), _) => job.route.unbind(),
        (LastJob::InLog(_), Some(provider)) if job.route.only.is_none() => {
            job.route.only = Some(provider.clone());
        }
        (LastJob::InLog(_), _) => {}
    }
}

/// Name from which the id of the attempt is derived. It is the same in every run of the command, and changes when the log
/// contains a newer job.
fn name(stranded: &Stranded) -> String {
    let Stranded { stream, attempt, .. } = stranded;
    match &stranded.job {
        LastJob::InLog(seq) => format!("restored.{stream}.{seq}.{attempt}"),
        LastJob::Kept(_) => format!("restored.{stream}.kept.{attempt}"),
    }
}
