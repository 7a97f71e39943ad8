//! The messages that a frozen turn comes down to: inbox events, jobs, and word of what was planned.

use domain::content::{Content, Object};
use domain::event::{DeliveryJob, ItemsAdded, SendContinues, SendPlanned};
use domain::id::partition;
use domain::plan::PlannedDelivery;
use domain::send::TURN_RECIPIENTS;
use domain::{Channel, Envelope, Event, Reason, StreamName, Timestamp, UserNumber};
use store::facts::Facts;
use store::plan::{Decisions, RenderFailure, Turn};
use uuid::Uuid;

use crate::content::Writer;
use crate::inbox_events::InboxEvents;
use crate::planner::Cause;
use crate::template::TemplateError;

/// A message to publish.
pub(crate) struct Order {
    pub(crate) stream: StreamName,
    /// None where a repeat is harmless by itself.
    pub(crate) message_id: Option<String>,
    pub(crate) envelope: Envelope,
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

/// What acting on a turn comes to.
#[derive(Default)]
pub(crate) struct Orders {
    pub(crate) orders: Vec<Order>,
    /// The order for the next turn. Only when all else is in the log may it follow: once the last turn has been acted
    /// on, the send's body is gone, and no earlier turn can be acted on again.
    pub(crate) next: Option<Order>,
    pub(crate) failures: Vec<RenderFailure>,
}

impl FrozenTurn<'_> {
    /// Renders every decision and writes the messages. What cannot be rendered is reported, not published.
    pub(crate) fn orders(&self) -> Orders {
        let mut orders = Orders::default();
        let recipients = self.turn.send.turn(self.turn.turn);
        let first = self.turn.turn as usize * TURN_RECIPIENTS;
        let created_at = self.turn.send.send_at.unwrap_or(self.turn.accepted_at);
        let category_id = self.facts.category(self.position).map(|category| category.id);
        let mut inbox = InboxEvents::new(created_at, category_id);
        let nothing = Object::new();
        for (index, decision) in self.decisions {
            let recipient = (*index as usize).checked_sub(first).and_then(|place| recipients.get(place));
            let (Some(recipient), Some(user)) = (recipient, decision.user) else {
                continue;
            };
            let profile = self
                .facts
                .user(self.turn.app, &recipient.identifier)
                .map_or(&nothing, |(_, profile)| profile);
            if decision.in_app {
                match self.writer.in_app(recipient, profile) {
                    Ok(content) => inbox.add(partition(self.turn.app, user, self.partitions), user, content),
                    Err(error) => orders.failures.push(self.failure(*index, Channel::InApp, &error)),
                }
            }
            for delivery in &decision.deliveries {
                match self.writer.external(delivery.channel, recipient, profile) {
                    Ok(content) => orders.orders.push(self.job(user, delivery, content)),
                    Err(error) => orders.failures.push(self.failure(*index, delivery.channel, &error)),
                }
            }
        }
        orders
            .orders
            .extend(inbox.into_events().enumerate().map(|(number, event)| self.inbox_event(number, event)));
        self.words(&mut orders);
        orders
    }

    fn inbox_event(&self, number: usize, (partition, added): (u32, ItemsAdded)) -> Order {
        let name = format!("inbox.{}.{number}", self.turn.turn);
        Order {
            stream: StreamName::Inbox(partition),
            message_id: None,
            envelope: self.envelope(&name, Event::InboxItemsAdded(added)),
        }
    }

    fn job(&self, user: UserNumber, delivery: &PlannedDelivery, content: Content) -> Order {
        let job = DeliveryJob {
            delivery_id: delivery.id,
            attempt: 1,
            channel: delivery.channel,
            user,
            target: delivery.target.clone(),
            expires_at: self.turn.send.expires_at,
            content,
        };
        let name = format!("{}.1", delivery.id);
        Order {
            stream: StreamName::Job(delivery.channel, self.turn.send.lane),
            envelope: self.envelope(&name, Event::DeliveryJob(Box::new(job))),
            message_id: Some(name),
        }
    }

    /// `SendPlanned`, and `SendContinues` while turns are to come.
    fn words(&self, orders: &mut Orders) {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let planned = SendPlanned {
            turn: self.turn.turn,
            recipients: count(self.decisions.len()),
            in_app: count(self.decisions.iter().filter(|(_, decision)| decision.in_app).count()),
            deliveries: count(self.decisions.iter().map(|(_, decision)| decision.deliveries.len()).sum()),
            skipped: count(self.decisions.iter().map(|(_, decision)| decision.skips.len()).sum()),
        };
        let name = format!("{}.planned.{}", self.turn.send_id, self.turn.turn);
        orders.orders.push(Order {
            stream: StreamName::Outcome,
            envelope: self.envelope(&name, Event::SendPlanned(planned)),
            message_id: Some(name),
        });
        if !self.is_last() {
            let next = self.turn.turn + 1;
            let name = format!("{}.{next}", self.turn.send_id);
            orders.next = Some(Order {
                stream: StreamName::Send(self.turn.send.lane),
                envelope: self.envelope(&name, Event::SendContinues(SendContinues { turn: next })),
                message_id: Some(name),
            });
        }
    }

    /// Whether no turn follows.
    pub(crate) fn is_last(&self) -> bool {
        self.turn.turn as usize + 1 >= self.turn.send.turns()
    }

    /// The same turn writes the same ids, however often it is acted on.
    fn envelope(&self, name: &str, event: Event) -> Envelope {
        Envelope {
            id: Uuid::new_v5(&self.turn.send_id.0, name.as_bytes()),
            app: self.turn.app,
            at: self.now,
            send_id: Some(self.turn.send_id),
            caused_by: Some(self.cause.id),
            trace: self.cause.trace.clone(),
            event,
        }
    }

    fn failure(&self, recipient_index: u32, channel: Channel, error: &TemplateError) -> RenderFailure {
        let (app, send_id) = (self.turn.app, self.turn.send_id);
        tracing::warn!(%send_id, recipient_index, %channel, %error, reason = %Reason::TemplateError, "not rendered");
        RenderFailure { app, send_id, recipient_index, channel }
    }
}
