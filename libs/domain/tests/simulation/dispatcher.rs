//! A dispatcher: freezes chunks, then publishes what was decided, then acknowledges.

use std::collections::BTreeMap;

use domain::content::{Content, EmailContent, InAppContent, SmsContent};
use domain::event::{DeliveryJob, ItemsAdded};
use domain::id::partition;
use domain::plan::Decision;
use domain::{Channel, Envelope, Event, Timestamp, UserNumber};
use uuid::Uuid;

use crate::choice::Luck;
use crate::dice::Dice;
use crate::log::{AGAIN, APP, Message, Name, PARTITIONS, Queue, Seq};
use crate::mutant::Mutant;
use crate::store::{Chunk, Timer, is_kept};
use crate::world::{World, short};

/// How far a dispatcher is with a message.
#[derive(Debug, Default)]
pub(crate) enum Dispatcher {
    #[default]
    Idle,
    Reading(Seq),
    Scheduling(Seq, Chunk),
    Freezing(Seq, Chunk),
    Acting(Seq, Chunk, Orders),
    Continuing(Seq, Chunk),
    Dropping(Seq, Chunk),
    Acknowledging(Seq),
}

/// What is to be published of a chunk.
#[derive(Debug)]
pub(crate) struct Orders {
    inbox: Vec<(u32, ItemsAdded)>,
    jobs: Vec<DeliveryJob>,
    has_failed: bool,
}

impl World {
    pub(crate) fn step_dispatcher(&mut self, number: usize, luck: Luck, dice: &mut Dice) -> bool {
        let after = match std::mem::take(&mut self.dispatchers[number]) {
            Dispatcher::Idle => match self.log.fetch(&[Queue::Sends], self.now, dice) {
                Some(seq) => Dispatcher::Reading(seq),
                None => return false,
            },
            Dispatcher::Reading(seq) => self.read(seq, luck),
            Dispatcher::Scheduling(seq, chunk) => self.schedule(seq, chunk, luck),
            Dispatcher::Freezing(seq, chunk) => self.freeze(seq, chunk, luck),
            Dispatcher::Acting(seq, chunk, orders) => self.act(seq, chunk, orders, luck),
            Dispatcher::Continuing(seq, chunk) => self.go_on(seq, &chunk, luck),
            Dispatcher::Dropping(seq, chunk) => match luck {
                Luck::Failed => self.put_off(seq),
                _ => {
                    self.store.requests.entry(chunk.send_id).and_modify(|row| row.body = None);
                    if luck == Luck::Done { Dispatcher::Acknowledging(seq) } else { self.put_off(seq) }
                }
            },
            Dispatcher::Acknowledging(seq) => {
                if luck != Luck::Failed {
                    self.log.acknowledge(seq);
                }
                Dispatcher::Idle
            }
        };
        self.dispatchers[number] = after;
        true
    }

    fn put_off(&mut self, seq: Seq) -> Dispatcher {
        self.log.again(seq, self.now + AGAIN);
        Dispatcher::Idle
    }

    fn read(&mut self, seq: Seq, luck: Luck) -> Dispatcher {
        match self.log.message(seq).clone() {
            Message::Accepted { send_id, send, at } => {
                let is_ahead = send.send_at.is_some_and(|due_at| due_at > self.now);
                let chunk = Chunk { send_id, chunk: 0, accepted_at: at, send };
                match is_ahead {
                    true => Dispatcher::Scheduling(seq, chunk),
                    false => Dispatcher::Freezing(seq, chunk),
                }
            }
            Message::Continues { send_id, chunk } if luck == Luck::Done => {
                match self.store.requests.get(&send_id).map(|row| (row.accepted_at, row.body.clone())) {
                    Some((accepted_at, Some(send))) => {
                        Dispatcher::Freezing(seq, Chunk { send_id, chunk, accepted_at, send })
                    }
                    // Its last chunk has been acted on.
                    Some((_, None)) => Dispatcher::Acknowledging(seq),
                    None => self.put_off(seq),
                }
            }
            _ => self.put_off(seq),
        }
    }

    fn schedule(&mut self, seq: Seq, chunk: Chunk, luck: Luck) -> Dispatcher {
        if luck == Luck::Failed {
            return self.put_off(seq);
        }
        let id = self.fresh();
        let message = Message::Continues { send_id: chunk.send_id, chunk: 0 };
        let due_at = chunk.send.send_at.unwrap_or(self.now);
        let timer = Timer { due_at, queue: Queue::Sends, message, held_by: None };
        let waits = self.store.schedule(&chunk, id, timer);
        match luck {
            Luck::Done if waits || self.is(Mutant::BegunSendAcknowledged) => Dispatcher::Acknowledging(seq),
            // Its time has come meanwhile: another began with it, and may not have come to its end.
            Luck::Done => Dispatcher::Freezing(seq, chunk),
            _ => self.put_off(seq),
        }
    }

    fn freeze(&mut self, seq: Seq, chunk: Chunk, luck: Luck) -> Dispatcher {
        if luck == Luck::Failed {
            return self.put_off(seq);
        }
        let decisions = self.store.freeze(&chunk, self.mutant);
        self.note(|| {
            format!("    {}.{} is planned: {}", short(chunk.send_id), chunk.chunk, described(&decisions))
        });
        if luck == Luck::Unheard {
            return self.put_off(seq);
        }
        if self.is(Mutant::AckBeforeActing) {
            self.log.acknowledge(seq);
        }
        let orders = self.orders(&chunk, &decisions);
        Dispatcher::Acting(seq, chunk, orders)
    }

    fn orders(&self, chunk: &Chunk, decisions: &[Decision]) -> Orders {
        let mut inboxes: BTreeMap<u32, Vec<(UserNumber, u32)>> = BTreeMap::new();
        let mut jobs = Vec::new();
        for decision in decisions {
            let Some(user) = decision.user else { continue };
            if decision.in_app {
                inboxes.entry(partition(APP, user, PARTITIONS)).or_default().push((user, 0));
            }
            for delivery in &decision.deliveries {
                let content = match delivery.channel {
                    Channel::Sms => Content::Sms(SmsContent::default()),
                    _ => Content::Email(EmailContent::default()),
                };
                let target = delivery.target.clone();
                let first = DeliveryJob::first(delivery.id, delivery.channel, user, target, content);
                jobs.push(DeliveryJob { expires_at: chunk.send.expires_at, ..first });
            }
        }
        let created_at = chunk.send.send_at.unwrap_or(chunk.accepted_at);
        let added = |(partition, recipients)| {
            let contents = vec![InAppContent::default()];
            (partition, ItemsAdded { created_at, category_id: None, contents, recipients })
        };
        Orders { inbox: inboxes.into_iter().map(added).collect(), jobs, has_failed: false }
    }

    /// Publishes one of the orders; what follows from their end.
    fn act(&mut self, seq: Seq, chunk: Chunk, mut orders: Orders, luck: Luck) -> Dispatcher {
        if let Some((partition, added)) = orders.inbox.pop() {
            if luck != Luck::Failed {
                let event = self.inbox_event(&chunk, added);
                self.log.append(partition, event);
            }
            orders.has_failed |= luck != Luck::Done;
        } else if let Some(job) = orders.jobs.pop() {
            if luck != Luck::Failed {
                self.publish_first(&chunk, Box::new(job));
            }
            orders.has_failed |= luck != Luck::Done;
        }
        match orders {
            Orders { inbox, jobs, .. } if !inbox.is_empty() || !jobs.is_empty() => {
                Dispatcher::Acting(seq, chunk, Orders { inbox, jobs, has_failed: orders.has_failed })
            }
            Orders { has_failed: true, .. } => self.put_off(seq),
            _ if !chunk.is_last() => Dispatcher::Continuing(seq, chunk),
            _ if is_kept(&chunk.send) => Dispatcher::Dropping(seq, chunk),
            _ => Dispatcher::Acknowledging(seq),
        }
    }

    fn inbox_event(&mut self, chunk: &Chunk, added: ItemsAdded) -> Envelope {
        let id = Uuid::from_u128(self.fresh().into());
        let (at, send_id) = (self.now, Some(chunk.send_id));
        let event = Event::InboxItemsAdded(added);
        Envelope { id, app: APP, at, send_id, caused_by: None, trace: None, event }
    }

    fn publish_first(&mut self, chunk: &Chunk, job: Box<DeliveryJob>) {
        let (queue, name) = (queue_of(job.channel), Name::FirstJob(job.delivery_id));
        let not_before = Timestamp::from_millis(0);
        let message = Message::Job { send_id: chunk.send_id, job, not_before };
        self.log.publish(queue, name, message, self.now);
    }

    fn go_on(&mut self, seq: Seq, chunk: &Chunk, luck: Luck) -> Dispatcher {
        if luck != Luck::Failed {
            let next = chunk.chunk + 1;
            let message = Message::Continues { send_id: chunk.send_id, chunk: next };
            self.log.publish(Queue::Sends, Name::Chunk(chunk.send_id, next), message, self.now);
        }
        if luck == Luck::Done { Dispatcher::Acknowledging(seq) } else { self.put_off(seq) }
    }
}

/// Where the jobs of a channel go.
pub(crate) fn queue_of(channel: Channel) -> Queue {
    if channel == Channel::Sms { Queue::Texts } else { Queue::Emails }
}

fn described(decisions: &[Decision]) -> String {
    let one = |decision: &Decision| {
        let inbox = decision.in_app.then(|| "inbox".to_owned());
        let targets = decision.deliveries.iter().map(|delivery| delivery.target.clone());
        let all: Vec<String> = inbox.into_iter().chain(targets).collect();
        format!(
            "{} gets {}",
            decision.identifier,
            if all.is_empty() { "nothing".to_owned() } else { all.join(", ") }
        )
    };
    decisions.iter().map(one).collect::<Vec<_>>().join("; ")
}
