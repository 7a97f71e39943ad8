//! The next attempt of a delivery, made of the job that the log has, or that the backup kept.

use anyhow::Context as _;
use domain::event::DeliveryJob;
use domain::{Envelope, Event};
use event_log::EventLog;
use service_kit::clock;
use store::deliveries::timer::NewTimer;
use store::recovery::restore::{LastJob, Stranded, StrandedAs};
use uuid::Uuid;

/// What becomes of a stranded delivery.
pub(super) enum PutBack {
    /// It is attempted at once.
    Timer(NewTimer),
    /// It is parked as it was.
    Parked(Stranded, Vec<u8>),
    /// The log has lost its job meanwhile.
    Gone,
}

/// Makes the next attempt.
pub(super) async fn put_back(log: &EventLog, stranded: Stranded) -> anyhow::Result<PutBack> {
    let found = match &stranded.job {
        LastJob::Kept(message) => Envelope::decode(message),
        LastJob::InLog(seq) => match log.message(stranded.stream, *seq).await? {
            Some(record) => Envelope::decode(&record.payload),
            None => return Ok(PutBack::Gone),
        },
    };
    let mut envelope = found.context("a job that was read before")?;
    let Event::DeliveryJob(job) = &mut envelope.event else { return Ok(PutBack::Gone) };
    if stranded.stranded != StrandedAs::HandedOut {
        job.attempt = stranded.attempt;
        ask_again(job, &stranded);
    }
    if stranded.stranded == StrandedAs::Parked {
        job.limited_retries = 0;
    }
    let now = clock::now();
    let id = Uuid::new_v5(&stranded.delivery.0, name(&stranded).as_bytes());
    (envelope.caused_by, envelope.id, envelope.at) = (Some(envelope.id), id, now);
    let message = envelope.encode().context("the next attempt cannot be written")?;
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

/// Which provider is to be asked after the last one is not in the log. It may have taken the message, so that no other
/// may be asked; unless it said itself, in a receipt, that it did not deliver it. Whoever the job was bound to before stays
/// the only one: the others have not been asked since.
fn ask_again(job: &mut DeliveryJob, stranded: &Stranded) {
    match (&stranded.job, &stranded.provider) {
        (LastJob::Kept(_), _) => job.route.unbind(),
        (LastJob::InLog(_), Some(provider)) if job.route.only.is_none() => {
            job.route.only = Some(provider.clone());
        }
        (LastJob::InLog(_), _) => {}
    }
}

/// The same in every run of the command, and another one once the job stands in the log anew.
fn name(stranded: &Stranded) -> String {
    let Stranded { stream, attempt, .. } = stranded;
    match &stranded.job {
        LastJob::InLog(seq) => format!("restored.{stream}.{seq}.{attempt}"),
        LastJob::Kept(_) => format!("restored.{stream}.kept.{attempt}"),
    }
}
