//! Steps of a restore. Each step can be repeated.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::Context as _;
use domain::event::SendContinues;
use domain::{AppId, Envelope, Event, SendId, StreamName};
use event_log::EventLog;
use service_kit::clock;
use store::deliveries::timer::NewTimer;
use store::recovery::restore::{FoundJob, FoundOutcome, FoundPlan, Restore, UnfinishedSend};
use store::sends::chunk::Chunk;
use uuid::Uuid;

use super::reach::{Range, Reach};
use super::report::Report;
use super::walk::{FoundMessage, Walk, print_progress};

/// Each chunk needs its send, which can be as large as one megabyte.
const PLANS: usize = 40;
/// A send can be as large as one megabyte.
const SENDS: i64 = 20;

/// The subscribers of further chunks are read from the database again.
const MAX_EXPANDED: usize = 1_000_000;

/// Stream and sequence of the first message that contains the subscribers of a chunk.
type Expanded = BTreeMap<(AppId, SendId, u32), (StreamName, u64)>;

pub(super) struct Passes<'a> {
    log: &'a EventLog,
    restore: Restore,
    report: Report,
    apps: BTreeSet<AppId>,
    expanded: Expanded,
}

impl<'a> Passes<'a> {
    /// Marks each delivery in the backup if a worker may have received its job since the backup was made.
    pub(super) async fn begin(
        log: &'a EventLog,
        mut restore: Restore,
        report: Report,
    ) -> anyhow::Result<Passes<'a>> {
        restore.doubt_waiting().await?;
        Ok(Passes { log, restore, report, apps: BTreeSet::new(), expanded: Expanded::new() })
    }

    pub(super) async fn read(&mut self, range: Range) -> anyhow::Result<()> {
        let mut walk = Walk::new(self.log, range);
        while let Some(batch) = walk.next().await? {
            self.add_apps(&batch).await?;
            self.apply(range, batch).await?;
        }
        self.report.unreadable += walk.unreadable;
        Ok(())
    }

    async fn add_apps(&mut self, batch: &[FoundMessage]) -> anyhow::Result<()> {
        let unseen: BTreeSet<AppId> =
            batch.iter().map(|found| found.envelope.app).filter(|app| !self.apps.contains(app)).collect();
        if !unseen.is_empty() {
            let created = self.restore.add_apps(&unseen).await?;
            self.report.apps.extend(created.iter().map(|app| app.0));
            self.apps.extend(unseen);
        }
        Ok(())
    }

    /// Applies plans before outcomes, because an outcome refers to its plan. Of the events in inbox streams it applies only erasures; the
    /// inbox projection applies the others later, from its own checkpoint.
    async fn apply(&mut self, range: Range, batch: Vec<FoundMessage>) -> anyhow::Result<()> {
        let mut sends = Vec::new();
        let mut jobs = Vec::new();
        let mut plans = Vec::new();
        let mut outcomes = Vec::new();
        let mut dead = Vec::new();
        let mut cancelled = Vec::new();
        for FoundMessage { seq, envelope: Envelope { app, at, send_id, event, .. } } in batch {
            match (event, send_id) {
                (Event::UserErased(erased), _) => {
                    self.report.erased += u64::from(self.restore.add_erasure(app, &erased, at).await?);
                }
                (Event::SendAccepted(send), Some(send_id)) => {
                    sends.push(Chunk::listed(app, send_id, 0, at, Arc::from(send)));
                }
                (Event::SendContinues(continues), Some(send_id))
                    if continues.expansion.is_some() && self.expanded.len() < MAX_EXPANDED =>
                {
                    let chunk = (app, send_id, continues.chunk);
                    self.expanded.entry(chunk).or_insert((range.stream, seq));
                }
                (Event::DeliveryJob(job), Some(send_id)) => {
                    let handed_out = seq <= range.handed_out;
                    jobs.push(FoundJob { app, send_id, handed_out, job: *job });
                }
                (Event::ChunkPlanned(planned), Some(send_id)) => {
                    plans.push(FoundPlan { app, send_id, planned });
                }
                (Event::DeliverySettled(settled), _) => outcomes.push(FoundOutcome { app, at, settled }),
                (Event::TargetSuppressed(suppressed), _) => dead.push((app, suppressed.delivery_id, at)),
                (Event::RequestCancelled(_), Some(send_id)) => cancelled.push((app, send_id, at)),
                _ => {}
            }
        }
        let restored = self.restore.add_sends(&sends).await?;
        self.report.requests += restored.requests;
        self.report.keys += restored.keys;
        self.report.deliveries += self.restore.add_jobs(&jobs).await?;
        for plans in plans.chunks(PLANS) {
            let restored = self.restore.add_plans(plans).await?;
            self.report.chunks += restored.chunks;
            self.report.users += restored.users;
        }
        self.report.outcomes += self.restore.add_outcomes(&outcomes).await?;
        self.report.suppressed += self.restore.add_suppressions(&dead).await?;
        self.report.cancelled += self.restore.add_cancellations(&cancelled).await?;
        Ok(())
    }

    /// Continues with the chunk after the last frozen one if the log contains its subscribers. Its jobs may already be in the log too, so
    /// it must go to the same subscribers.
    async fn expand_from_log(&self, unfinished: &mut UnfinishedSend) -> anyhow::Result<()> {
        let send = &mut unfinished.send;
        let chunk = send.chunk + 1;
        let Some((stream, seq)) = self.expanded.get(&(send.app, send.send_id, chunk)) else {
            return Ok(());
        };
        let record = self.log.message(*stream, *seq).await?;
        let record = record.with_context(|| format!("message {seq} of {stream} is gone"))?;
        if let Event::SendContinues(continues) = Envelope::decode(&record.payload)?.event {
            send.chunk = chunk;
            send.expansion = continues.expansion.map(Arc::new);
        }
        Ok(())
    }

    /// Ends the deliveries whose outcome is not in the log, so that no provider is called for them again.
    pub(super) async fn end_unknown(&mut self) -> anyhow::Result<()> {
        print_progress("ending the deliveries whose outcome is not in the log");
        self.report.unknown += self.restore.end_unknown(clock::now()).await?;
        Ok(())
    }

    /// Sets a new timer for the send's first unplanned chunk, or for its last chunk if all are planned. A timer in the backup is not
    /// enough: if it was published before, the log drops its message as a duplicate. And if a stream was full when a dispatcher published a
    /// plan, the refused messages became timers that the backup may lack.
    pub(super) async fn plan_open_sends(&mut self, reach: &Reach) -> anyhow::Result<()> {
        print_progress("scheduling the unplanned chunks of sends");
        let mut after = None;
        loop {
            let mut page = self.restore.unfinished(after, SENDS).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some((last.send.app, last.send.send_id));
            for unfinished in page.iter_mut().filter(|unfinished| unfinished.is_expanding) {
                self.expand_from_log(unfinished).await?;
            }
            let timers: Vec<NewTimer> = page
                .iter()
                .filter(|unfinished| unfinished.is_open)
                .map(|unfinished| order(unfinished, reach))
                .collect::<Result<_, _>>()
                .context("cannot encode a send")?;
            self.report.users += self.restore.plan_open(&page, &timers).await?;
            self.report.ordered += timers.len() as u64;
        }
    }

    /// Services may start afterwards.
    pub(super) async fn finish(self) -> anyhow::Result<Report> {
        self.restore.finish().await?;
        Ok(self.report.done())
    }
}

/// The timer's message is `SendContinues` if the database stores the body of the send, otherwise `SendAccepted` with the body.
fn order(unfinished: &UnfinishedSend, reach: &Reach) -> Result<NewTimer, serde_json::Error> {
    let Chunk { app, send_id, chunk, accepted_at, ref send, ref expansion, .. } = unfinished.send;
    let expansion = expansion.as_deref().cloned();
    let continues = SendContinues { expansion, ..SendContinues::plain(send, chunk) };
    let (stream, now) = (StreamName::Send(send.lane), clock::now());
    // The id contains the last sequence of the stream. So every run of the command uses the same id until the timer's
    // message is in the stream, and a new id afterwards.
    let last = reach.ranges.iter().filter(|range| range.stream == stream).map(|range| range.to).max();
    let name = format!("restored.{chunk}.{}", last.unwrap_or_default());
    let id = Uuid::new_v5(&send_id.0, name.as_bytes());
    let (message_id, at, event, due_at) = if send.needs_stored_body() {
        let due_at = send.send_at.filter(|at| chunk == 0 && *at > now).unwrap_or(now);
        (id, now, Event::SendContinues(continues), due_at)
    } else {
        (send_id.0, accepted_at, Event::SendAccepted(Box::new(send.as_ref().clone())), now)
    };
    let envelope =
        Envelope { id: message_id, app, at, send_id: Some(send_id), caused_by: None, trace: None, event };
    let message = envelope.encode()?;
    Ok(NewTimer { id, due_at, stream, message, app, send_id: Some(send_id), user: None, wait: None })
}
