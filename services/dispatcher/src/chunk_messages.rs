use std::collections::{HashMap, HashSet};

use domain::content::{Content, Object};
use domain::event::{ChunkDecisions, ChunkPlanned, DeliveryJob, DeliverySettled, SendContinues};
use domain::id::partition;
use domain::plan::{Decision, PlannedDelivery};
use domain::send::CHUNK_RECIPIENTS;
use domain::{CategoryId, Channel, Envelope, Event, Expansion, Reason, StreamName, Timestamp, UserNumber};
use planning::{ContentRenderer, TemplateError};
use service_kit::append::NewEvent;
use store::deliveries::ledger::DeliveryState;
use store::sends::chunk::Chunk;
use store::sends::facts::Facts;
use store::sends::plan::RenderFailure;
use store::sends::planned_chunk::PlannedChunk;
use uuid::Uuid;

use crate::inbox_events::InboxEvents;

/// Size of the gathered messages, in bytes, at which they are published.
const SLICE: usize = 8 * 1024 * 1024;

pub(crate) struct FrozenChunk<'a> {
    pub(crate) planned: &'a PlannedChunk,
    pub(crate) facts: &'a Facts,
    pub(crate) renderer: ContentRenderer<'a>,
    pub(crate) partitions: u32,
    pub(crate) now: Timestamp,
}

#[derive(Default)]
pub(crate) struct MessageBuffer {
    pub(crate) messages: Vec<NewEvent>,
    pub(crate) inbox: Vec<(u32, Envelope)>,
    pub(crate) failures: Vec<RenderFailure>,
    size: usize,
}

#[derive(Default)]
pub(crate) struct Progress {
    next: usize,
    unrendered: HashMap<u32, HashSet<Channel>>,
}

impl MessageBuffer {
    pub(crate) fn push(&mut self, message: NewEvent) {
        self.size += message.payload.len();
        self.messages.push(message);
    }
}

impl FrozenChunk<'_> {
    pub(crate) fn chunk(&self) -> &Chunk {
        &self.planned.chunk
    }

    /// Fills `buffer` up to its limit, and returns true if decisions remain. Render failures and oversized content are collected in
    /// `buffer.failures`.
    pub(crate) fn render_messages(
        &self,
        progress: &mut Progress,
        buffer: &mut MessageBuffer,
    ) -> Result<bool, serde_json::Error> {
        let created_at = self.chunk().send.send_at.unwrap_or(self.chunk().accepted_at);
        let mut inbox = InboxEvents::new(created_at, self.category());
        let from = progress.next;
        while let Some((index, decision)) = self.planned.decisions.get(progress.next) {
            if buffer.size + inbox.size() >= SLICE {
                break;
            }
            let failed = buffer.failures.len();
            self.render_recipient(*index, decision, &mut inbox, buffer)?;
            let failed = buffer.failures.get(failed..).unwrap_or_default();
            if !failed.is_empty() {
                progress.unrendered.insert(*index, failed.iter().map(|failure| failure.channel).collect());
            }
            progress.next += 1;
        }
        buffer.size += inbox.size();
        for (number, (partition, added)) in inbox.into_events().enumerate() {
            let name = format!("inbox.{}.{}", self.chunk().chunk, from + number);
            let id = self.stable_id(&name);
            buffer.inbox.push((partition, self.envelope(id, Event::InboxItemsAdded(added))));
        }
        let is_more = progress.next < self.planned.decisions.len();
        if !is_more {
            buffer.push(self.chunk_planned_message(&progress.unrendered)?);
        }
        Ok(is_more)
    }

    fn category(&self) -> Option<CategoryId> {
        self.planned.category.as_ref().map(|category| category.id)
    }

    fn render_recipient(
        &self,
        index: u32,
        decision: &Decision,
        inbox: &mut InboxEvents,
        buffer: &mut MessageBuffer,
    ) -> Result<(), serde_json::Error> {
        let first = self.chunk().chunk as usize * CHUNK_RECIPIENTS;
        let recipients = self.chunk().recipients();
        let recipient = (index as usize).checked_sub(first).and_then(|place| recipients.get(place));
        let (Some(recipient), Some(user)) = (recipient, decision.user) else {
            return Ok(());
        };
        let nothing = Object::new();
        let profile =
            self.facts.user(self.chunk().app, &recipient.identifier).map_or(&nothing, |(_, profile)| profile);
        if decision.in_app {
            let partition = partition(self.chunk().app, user, self.partitions);
            let content = self.renderer.in_app(recipient, profile);
            if let Err(error) = content.and_then(|content| inbox.add(partition, user, content)) {
                buffer.failures.push(self.render_failure(index, Channel::InApp, &error));
            }
        }
        for delivery in &decision.deliveries {
            match self.renderer.external(delivery.channel, recipient, profile) {
                Ok(content) => buffer.push(self.job_message(index, user, delivery, content)?),
                Err(error) => buffer.failures.push(self.render_failure(index, delivery.channel, &error)),
            }
        }
        Ok(())
    }

    fn job_message(
        &self,
        recipient: u32,
        user: UserNumber,
        delivery: &PlannedDelivery,
        content: Content,
    ) -> Result<NewEvent, serde_json::Error> {
        let expires_at = self.chunk().send.expires_at;
        let job = DeliveryJob {
            expires_at,
            category: self.planned.category_with_preferences().map(|category| category.id),
            overrides: self.chunk().send.overrides.providers.clone(),
            recipient: Some(recipient),
            ..DeliveryJob::first(delivery.id, delivery.channel, user, delivery.target.clone(), content)
        };
        let stream = StreamName::Job(delivery.channel, self.chunk().send.lane);
        self.message_with_stable_id(stream, format!("{}.1", delivery.id), Event::DeliveryJob(Box::new(job)))
    }

    fn chunk_planned_message(
        &self,
        unrendered: &HashMap<u32, HashSet<Channel>>,
    ) -> Result<NewEvent, serde_json::Error> {
        let none = HashSet::new();
        let template = self.planned.template.as_ref().map(|template| (template.id, template.version));
        let mut decided = ChunkDecisions { category: self.category(), template, ..ChunkDecisions::default() };
        let (mut in_app, mut deliveries, mut skipped) = (0, 0, 0);
        for (index, decision) in &self.planned.decisions {
            let unrendered = unrendered.get(index).unwrap_or(&none);
            decided.push(decision, unrendered);
            in_app += usize::from(decision.in_app && !unrendered.contains(&Channel::InApp));
            let jobs = decision.deliveries.iter().filter(|delivery| !unrendered.contains(&delivery.channel));
            deliveries += jobs.count();
            skipped += decision.skips.len();
        }
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let planned = ChunkPlanned {
            chunk: self.chunk().chunk,
            recipients: count(self.planned.decisions.len()),
            in_app: count(in_app),
            deliveries: count(deliveries),
            skipped: count(skipped),
            decided: Some(decided),
            expansion: self.expansion_without_erased(),
        };
        let name = format!("{}.planned.{}", self.chunk().send_id, self.chunk().chunk);
        self.message_with_stable_id(StreamName::Outcome, name, Event::ChunkPlanned(planned))
    }

    /// Uses the same id as a worker that publishes the same outcome.
    pub(crate) fn outcome_message(&self, ended: DeliveryState) -> Result<NewEvent, serde_json::Error> {
        let DeliveryState { delivery, user, channel, status, reason, attempt, provider, .. } = ended;
        let settled =
            DeliverySettled { delivery_id: delivery, channel, user, attempt, status, reason, provider };
        let (name, id) = settled.ids("settled");
        self.message(StreamName::Outcome, name, id, Event::DeliverySettled(settled))
    }

    pub(crate) fn is_of_send(&self, delivery: &DeliveryState) -> bool {
        (self.chunk().app, self.chunk().send_id) == (delivery.app, delivery.send_id)
    }

    /// Writes the message that asks a dispatcher to plan the next chunk. Publish it only when all other messages of this chunk are in the
    /// log: after the last chunk is published, the body of the send is deleted, and earlier chunks can no longer be written.
    pub(crate) fn next_chunk_message(
        &self,
        expansion: Option<Expansion>,
    ) -> Result<NewEvent, serde_json::Error> {
        let chunk = self.chunk().chunk + 1;
        let name = format!("{}.{chunk}", self.chunk().send_id);
        let lane = self.lane_of_next(expansion.as_ref());
        let continues = SendContinues { expansion, ..SendContinues::plain(&self.chunk().send, chunk) };
        let event = Event::SendContinues(continues);
        self.message_with_stable_id(StreamName::Send(lane), name, event)
    }

    /// Derives the id from `name`: if the chunk is written again, its messages get the same ids.
    fn message_with_stable_id(
        &self,
        stream: StreamName,
        name: String,
        event: Event,
    ) -> Result<NewEvent, serde_json::Error> {
        let id = self.stable_id(&name);
        self.message(stream, name, id, event)
    }

    fn stable_id(&self, name: &str) -> Uuid {
        Uuid::new_v5(&self.chunk().send_id.0, name.as_bytes())
    }

    fn message(
        &self,
        stream: StreamName,
        name: String,
        id: Uuid,
        event: Event,
    ) -> Result<NewEvent, serde_json::Error> {
        NewEvent::new(stream, Some(name), &self.envelope(id, event))
    }

    fn envelope(&self, id: Uuid, event: Event) -> Envelope {
        let cause = self.chunk().cause.as_ref();
        Envelope {
            id,
            app: self.chunk().app,
            at: self.now,
            send_id: Some(self.chunk().send_id),
            caused_by: cause.map(|cause| cause.id),
            trace: cause.and_then(|cause| cause.trace.clone()),
            event,
        }
    }

    fn render_failure(&self, recipient_index: u32, channel: Channel, error: &TemplateError) -> RenderFailure {
        let app = self.chunk().app;
        let send_id = self.chunk().send_id;
        tracing::warn!(
            %send_id,
            recipient_index,
            %channel,
            %error,
            reason = %Reason::TemplateError,
            "cannot render the content; the delivery fails"
        );
        RenderFailure { app, send_id, recipient_index, channel }
    }
}
