//! The steps of a restore. Each step reads a part of the log or completes the work of earlier steps, and can be repeated.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::Context as _;
use domain::event::SendContinues;
use domain::{AppId, Envelope, Event, SendId, StreamName, Timestamp};
use event_log::EventLog;
use service_kit::clock;
use store::deliveries::timer::NewTimer;
use store::recovery::restore::{FoundJob, FoundOutcome, FoundPlan, Numbers, Restore, Stranded, Unfinished};
use store::sends::chunk::Chunk;
use uuid::Uuid;

use super::attempts;
use super::found::note;
use super::reach::{Range, Reach};
use super::report::Report;
use super::walk::{Found, Walk, print_progress};

/// Maximum number of planned chunks per transaction. Each needs its send, of up to a megabyte.
const PLANS: usize = 40;
/// Maximum number of unfinished sends per transaction, each of up to a megabyte.
const SENDS: i64 = 20;
/// Maximum number of stranded deliveries per transaction. Each needs its message.
const STRANDED: i64 = 50;

/// A restore in progress.
pub(super) struct Passes<'a> {
    log: &'a EventLog,
    restore: Restore,
    report: Report,
    numbers: Numbers,
    apps: BTreeSet<AppId>,
}

impl<'a> Passes<'a> {
    pub(super) fn new(log: &'a EventLog, restore: Restore, report: Report) -> Passes<'a> {
        Passes { log, restore, report, numbers: Numbers::default(), apps: BTreeSet::new() }
    }

    /// Recovers erasures from the inbox streams. The inbox needs no other recovery: its projection continues at its checkpoint.
    pub(super) async fn erasures(&mut self, reach: &Reach) -> anyhow::Result<()> {
        for range in reach.of_streams(|stream| matches!(stream, StreamName::Inbox(_))) {
            let mut walk = Walk::new(self.log, range);
            while let Some(batch) = self.next(&mut walk).await? {
                for Found { envelope, .. } in batch {
                    if let Event::UserErased(erased) = envelope.event {
                        let is_new = self.restore.add_erasure(envelope.app, &erased, envelope.at).await?;
                        self.report.erased += u64::from(is_new);
                    }
                }
            }
            self.report.unreadable += walk.unreadable;
        }
        Ok(())
    }

    /// Recovers accepted sends with their idempotency keys.
    pub(super) async fn sends(&mut self, reach: &Reach) -> anyhow::Result<()> {
        for range in reach.of_streams(|stream| matches!(stream, StreamName::Send(_))) {
            let mut walk = Walk::new(self.log, range);
            while let Some(batch) = self.next(&mut walk).await? {
                self.report.reopened_sends += self.restore.reopen_sends(&stored(&batch)).await?;
                let accepted: Vec<Chunk> = batch.into_iter().filter_map(accepted).collect();
                let restored = self.restore.add_sends(&accepted).await?;
                self.report.requests += restored.requests;
                self.report.keys += restored.keys;
            }
            self.report.unreadable += walk.unreadable;
        }
        Ok(())
    }

    /// Recovers deliveries from their jobs.
    pub(super) async fn jobs(&mut self, reach: &Reach) -> anyhow::Result<()> {
        for range in reach.of_streams(|stream| matches!(stream, StreamName::Job(..))) {
            let mut walk = Walk::new(self.log, range);
            while let Some(batch) = self.next(&mut walk).await? {
                let jobs: Vec<FoundJob> = batch.into_iter().filter_map(|found| job(range, found)).collect();
                self.report.deliveries += self.restore.add_jobs(&jobs).await?;
            }
            self.report.unreadable += walk.unreadable;
        }
        Ok(())
    }

    /// Recovers plans, outcomes, suppressions and cancellations.
    pub(super) async fn outcomes(&mut self, reach: &Reach) -> anyhow::Result<()> {
        for range in reach.of_streams(|stream| stream == StreamName::Outcome) {
            let mut walk = Walk::new(self.log, range);
            while let Some(batch) = self.next(&mut walk).await? {
                self.add_outcomes(batch).await?;
            }
            self.report.unreadable += walk.unreadable;
        }
        Ok(())
    }

    /// Recovers one batch, plans before outcomes, because an outcome refers to its plan.
    async fn add_outcomes(&mut self, batch: Vec<Found>) -> anyhow::Result<()> {
        let mut plans = Vec::new();
        let mut outcomes = Vec::new();
        let mut dead = Vec::new();
        let mut cancelled = Vec::new();
        for Found { envelope: Envelope { app, at, send_id, event, .. }, .. } in batch {
            match (event, send_id) {
                (Event::SendPlanned(planned), Some(send_id)) => {
                    plans.push(FoundPlan { app, send_id, at, planned });
                }
                (Event::DeliverySettled(settled), _) => outcomes.push(FoundOutcome { app, at, settled }),
                (Event::TargetSuppressed(suppressed), _) => dead.push((app, suppressed.delivery_id, at)),
                (Event::RequestCancelled(_), Some(send_id)) => cancelled.push((app, send_id, at)),
                _ => {}
            }
        }
        for plans in plans.chunks(PLANS) {
            let restored = self.restore.add_plans(plans).await?;
            self.report.chunks += restored.chunks;
            self.report.users += restored.users;
            self.report.categories += restored.categories;
        }
        self.report.outcomes += self.restore.add_outcomes(&outcomes).await?;
        self.report.suppressed += self.restore.add_suppressions(&dead).await? as u64;
        self.report.cancelled += self.restore.add_cancellations(&cancelled).await?;
        Ok(())
    }

    /// Creates timers for deliveries without a next attempt, and ends deliveries whose provider must not be called again.
    pub(super) async fn attempts(&mut self) -> anyhow::Result<()> {
        print_progress("recovering deliveries that wait for an attempt");
        self.report.reopened += self.restore.reopen().await?;
        self.report.unknown += self.restore.end_unknown(clock::now()).await? as u64;
        let mut after = None;
        loop {
            let page = self.restore.stranded(after, STRANDED).await?;
            let Some(last) = page.last() else { break };
            after = Some((last.app, last.delivery));
            self.put_back(page).await?;
        }
        let mut after = None;
        loop {
            let page = self.restore.stranded_by_receipts(after, STRANDED).await?;
            let Some(last) = page.last() else { break };
            after = Some((last.app, last.delivery));
            self.put_back(page).await?;
        }
        self.report.without_job += self.restore.forget_kept_jobs().await?;
        Ok(())
    }

    async fn put_back(&mut self, page: Vec<Stranded>) -> anyhow::Result<()> {
        let mut timers = Vec::new();
        let mut parked = Vec::new();
        for stranded in page {
            match attempts::put_back(self.log, stranded).await? {
                attempts::PutBack::Timer(timer) => timers.push(timer),
                attempts::PutBack::Parked(stranded, message) => parked.push((stranded, message)),
                attempts::PutBack::Gone => self.report.without_job += 1,
            }
        }
        self.restore.put_back(&timers, &parked).await?;
        self.report.attempts += timers.len() as u64;
        self.report.parked += parked.len() as u64;
        Ok(())
    }

    /// Schedules new plans for each send whose plans are not all in the log.
    ///
    /// Each open chunk gets a new timer. The backup's own timer may have been published before the loss, so that its message
    /// would count as a duplicate; and the dispatcher that planned the chunk may have lost messages that a full stream refused.
    pub(super) async fn unfinished_sends(&mut self, reach: &Reach) -> anyhow::Result<()> {
        print_progress("scheduling the unplanned chunks of sends");
        let mut after = None;
        loop {
            let page = self.restore.unfinished(after, SENDS).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some((last.send.app, last.send.send_id));
            let timers: Vec<NewTimer> = page
                .iter()
                .filter(|unfinished| unfinished.is_open)
                .map(|unfinished| order(unfinished, reach))
                .collect::<Result<_, _>>()
                .context("cannot encode a send")?;
            self.report.users += self.restore.go_on(&page, &timers).await?;
            self.report.ordered += timers.len() as u64;
        }
    }

    /// Ends the restore; services may start from then on.
    pub(super) async fn finish(mut self) -> anyhow::Result<Report> {
        self.restore.raise_numbers(self.numbers).await?;
        self.restore.finish().await?;
        Ok(self.report.done())
    }

    /// Reads the next batch of a stream, adds its missing apps and notes its numbers.
    async fn next(&mut self, walk: &mut Walk) -> anyhow::Result<Option<Vec<Found>>> {
        let Some(batch) = walk.next().await? else { return Ok(None) };
        let unseen: BTreeSet<AppId> =
            batch.iter().map(|found| found.envelope.app).filter(|app| !self.apps.contains(app)).collect();
        if !unseen.is_empty() {
            let made = self.restore.add_apps(&unseen).await?;
            self.report.apps.extend(made.iter().map(|app| app.0));
            self.apps.extend(unseen);
        }
        for found in &batch {
            note(&mut self.numbers, found);
        }
        Ok(Some(batch))
    }
}

/// Returns the sends of the messages, with the times at which the stream stored them.
fn stored(batch: &[Found]) -> Vec<(AppId, SendId, Timestamp)> {
    let send = |found: &Found| Some((found.envelope.app, found.envelope.send_id?, found.stored_at));
    batch.iter().filter_map(send).collect()
}

fn accepted(found: Found) -> Option<Chunk> {
    let Envelope { app, at, send_id, event, .. } = found.envelope;
    match (event, send_id) {
        (Event::SendAccepted(send), Some(send_id)) => {
            Some(Chunk { app, send_id, chunk: 0, accepted_at: at, send: Arc::from(send) })
        }
        _ => None,
    }
}

fn job(range: Range, found: Found) -> Option<FoundJob> {
    let Envelope { app, send_id, event, .. } = found.envelope;
    let Event::DeliveryJob(job) = event else { return None };
    let handed_out = found.seq <= range.handed_out;
    Some(FoundJob { app, send_id: send_id?, stream: range.stream, seq: found.seq, handed_out, job: *job })
}

/// Creates the timer that requests a plan for a chunk. Its message is `SendContinues` if the database stores the body of the
/// send, and otherwise the send itself.
fn order(unfinished: &Unfinished, reach: &Reach) -> Result<NewTimer, serde_json::Error> {
    let Chunk { app, send_id, chunk, accepted_at, ref send } = unfinished.send;
    let (stream, now) = (StreamName::Send(send.lane), clock::now());
    // The id is the same in every run of the command, and changes when the order is in the log.
    let last = reach.of_streams(|named| named == stream).map(|range| range.to).max();
    let name = format!("restored.{chunk}.{}", last.unwrap_or_default());
    let id = Uuid::new_v5(&send_id.0, name.as_bytes());
    let (message_id, at, event, due_at) = if send.is_kept() {
        let due_at = send.send_at.filter(|at| chunk == 0 && *at > now).unwrap_or(now);
        (id, now, Event::SendContinues(SendContinues { chunk }), due_at)
    } else {
        (send_id.0, accepted_at, Event::SendAccepted(Box::new(send.as_ref().clone())), now)
    };
    let envelope =
        Envelope { id: message_id, app, at, send_id: Some(send_id), caused_by: None, trace: None, event };
    let message = envelope.encode()?;
    Ok(NewTimer { id, due_at, stream, message, app, send_id: Some(send_id), user: None })
}
