//! The messages that a frozen turn comes down to: inbox events, jobs, and word of what was planned.

use bytes::Bytes;
use domain::content::{Content, Object};
use domain::event::{DeliveryJob, ItemsAdded, SendContinues, SendPlanned};
use domain::id::partition;
use domain::plan::{Decision, PlannedDelivery};
use domain::send::TURN_RECIPIENTS;
use domain::{AppId, Channel, Envelope, Event, Reason, SendId, StreamName, Timestamp, UserNumber};
use rendering::{TemplateError, Writer};
use store::facts::Facts;
use store::plan::{Decisions, RenderFailure};
use store::turn::Turn;
use uuid::Uuid;

use crate::inbox_events::InboxEvents;

/// Bytes of messages to gather before they are published.
const SLICE: usize = 8 * 1024 * 1024;

/// A message to publish.
pub(crate) struct Order {
    pub(crate) stream: StreamName,
    /// None where a repeat is harmless by itself.
    pub(crate) message_id: Option<String>,
    pub(crate) app: AppId,
    pub(crate) send_id: SendId,
    pub(crate) payload: Bytes,
}

/// What ordered a turn.
#[derive(Clone, Debug)]
pub(crate) struct Cause {
    /// Id of the message.
    pub(crate) id: Uuid,
    /// Its trace.
    pub(crate) trace: Option<String>,
}

/// Everything that acting on a turn needs.
pub(crate) struct FrozenTurn<'a> {
    pub(crate) turn: &'a Turn,
    pub(crate) decisions: &'a Decisions,
    pub(crate) facts: &'a Facts,
    /// Position of the turn among the facts.
    pub(crate) position: usize,
    pub(crate) writer: Writer<'a>,
    pub(crate) partitions: u32,
    pub(crate) now: Timestamp,
    pub(crate) cause: &'a Cause,
}

/// What acting on turns comes to, gathered until it is worth publishing and no longer.
#[derive(Default)]
pub(crate) struct Orders {
    pub(crate) orders: Vec<Order>,
    pub(crate) failures: Vec<RenderFailure>,
    size: usize,
}

impl Orders {
    fn push(&mut self, order: Order) {
        self.size += order.payload.len();
        self.orders.push(order);
    }
}

impl FrozenTurn<'_> {
    /// Renders the decisions from the one at `from` on and writes their messages, until `orders` are to be published.
    /// Returns the decision to go on with then; None when the whole turn is written. What cannot be rendered, or comes
    /// out too large, is reported instead.
    pub(crate) fn write(&self, from: usize, orders: &mut Orders) -> Result<Option<usize>, serde_json::Error> {
        let created_at = self.turn.send.send_at.unwrap_or(self.turn.accepted_at);
        let category_id = self.facts.category(self.position).map(|category| category.id);
        let mut inbox = InboxEvents::new(created_at, category_id);
        let mut rest = None;
        for (place, (index, decision)) in self.decisions.iter().enumerate().skip(from) {
            if orders.size + inbox.size() >= SLICE {
                rest = Some(place);
                break;
            }
            self.write_recipient(*index, decision, &mut inbox, orders)?;
        }
        for (number, event) in inbox.into_events().enumerate() {
            orders.push(self.inbox_event(from + number, event)?);
        }
        if rest.is_none() {
            orders.push(self.planned()?);
        }
        Ok(rest)
    }

    fn write_recipient(
        &self,
        index: u32,
        decision: &Decision,
        inbox: &mut InboxEvents,
        orders: &mut Orders,
    ) -> Result<(), serde_json::Error> {
        let first = self.turn.turn as usize * TURN_RECIPIENTS;
        let recipients = self.turn.send.turn(self.turn.turn);
        let recipient = (index as usize).checked_sub(first).and_then(|place| recipients.get(place));
        let (Some(recipient), Some(user)) = (recipient, decision.user) else {
            return Ok(());
        };
        let nothing = Object::new();
        let profile =
            self.facts.user(self.turn.app, &recipient.identifier).map_or(&nothing, |(_, profile)| profile);
        if decision.in_app {
            let partition = partition(self.turn.app, user, self.partitions);
            let content = self.writer.in_app(recipient, profile);
            if let Err(error) = content.and_then(|content| inbox.add(partition, user, content)) {
                orders.failures.push(self.failure(index, Channel::InApp, &error));
            }
        }
        for delivery in &decision.deliveries {
            match self.writer.external(delivery.channel, recipient, profile) {
                Ok(content) => orders.push(self.job(user, delivery, content)?),
                Err(error) => orders.failures.push(self.failure(index, delivery.channel, &error)),
            }
        }
        Ok(())
    }

    fn job(
        &self,
        user: UserNumber,
        delivery: &PlannedDelivery,
        content: Content,
    ) -> Result<Order, serde_json::Error> {
        let job = DeliveryJob {
            delivery_id: delivery.id,
            attempt: 1,
            channel: delivery.channel,
            user,
            target: delivery.target.clone(),
            expires_at: self.turn.send.expires_at,
            content,
        };
        let stream = StreamName::Job(delivery.channel, self.turn.send.lane);
        self.named(stream, format!("{}.1", delivery.id), Event::DeliveryJob(Box::new(job)))
    }

    fn inbox_event(
        &self,
        number: usize,
        (partition, added): (u32, ItemsAdded),
    ) -> Result<Order, serde_json::Error> {
        let name = format!("inbox.{}.{number}", self.turn.turn);
        let order = self.named(StreamName::Inbox(partition), name, Event::InboxItemsAdded(added))?;
        Ok(Order { message_id: None, ..order })
    }

    fn planned(&self) -> Result<Order, serde_json::Error> {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let planned = SendPlanned {
            turn: self.turn.turn,
            recipients: count(self.decisions.len()),
            in_app: count(self.decisions.iter().filter(|(_, decision)| decision.in_app).count()),
            deliveries: count(self.decisions.iter().map(|(_, decision)| decision.deliveries.len()).sum()),
            skipped: count(self.decisions.iter().map(|(_, decision)| decision.skips.len()).sum()),
        };
        let name = format!("{}.planned.{}", self.turn.send_id, self.turn.turn);
        self.named(StreamName::Outcome, name, Event::SendPlanned(planned))
    }

    /// The order for the next turn, while turns are to come. Only when all else is in the log may it follow: once the
    /// last turn has been acted on, the send's body is gone, and no earlier turn can be acted on again.
    pub(crate) fn next(&self) -> Result<Option<Order>, serde_json::Error> {
        if self.is_last() {
            return Ok(None);
        }
        let turn = self.turn.turn + 1;
        let name = format!("{}.{turn}", self.turn.send_id);
        let stream = StreamName::Send(self.turn.send.lane);
        self.named(stream, name, Event::SendContinues(SendContinues { turn })).map(Some)
    }

    /// Whether no turn follows.
    pub(crate) fn is_last(&self) -> bool {
        self.turn.turn as usize + 1 >= self.turn.send.turns()
    }

    /// The same turn writes the same ids, however often it is acted on.
    fn named(&self, stream: StreamName, name: String, event: Event) -> Result<Order, serde_json::Error> {
        let Turn { app, send_id, .. } = *self.turn;
        let envelope = Envelope {
            id: Uuid::new_v5(&send_id.0, name.as_bytes()),
            app,
            at: self.now,
            send_id: Some(send_id),
            caused_by: Some(self.cause.id),
            trace: self.cause.trace.clone(),
            event,
        };
        Ok(Order { stream, message_id: Some(name), app, send_id, payload: envelope.encode()?.into() })
    }

    fn failure(&self, recipient_index: u32, channel: Channel, error: &TemplateError) -> RenderFailure {
        let (app, send_id) = (self.turn.app, self.turn.send_id);
        tracing::warn!(%send_id, recipient_index, %channel, %error, reason = %Reason::TemplateError, "not rendered");
        RenderFailure { app, send_id, recipient_index, channel }
    }
}
