//! The event log: streams with duplicate windows, messages that come again until they are acknowledged.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use domain::event::DeliveryJob;
use domain::{AppId, DeliveryId, Envelope, SendId, SendRequest, Status, Timestamp, UserNumber};

use crate::dice::Dice;

/// How long a stream knows the ids of its messages.
const DUPLICATE_WINDOW: Duration = Duration::from_secs(600);
/// After which a message that nobody answered is handed out again.
pub(crate) const ACK_WAIT: Duration = Duration::from_secs(60);
/// Until a message comes again that could not be handled.
pub(crate) const AGAIN: Duration = Duration::from_millis(700);
/// Partitions of the inbox.
pub(crate) const PARTITIONS: u32 = 2;
/// The tenant.
pub(crate) const APP: AppId = AppId(1);

/// A stream whose messages are worked off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    Sends,
    Emails,
    Texts,
}

/// The id of a message.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Name {
    Send(SendId),
    Chunk(SendId, u32),
    FirstJob(DeliveryId),
    Timer(u64),
}

/// A message of a [`Queue`].
#[derive(Clone, Debug)]
pub(crate) enum Message {
    /// A send was accepted.
    Accepted { send_id: SendId, send: Rc<SendRequest>, at: Timestamp },
    /// A chunk is due.
    Continues { send_id: SendId, chunk: u32 },
    /// An attempt is to be made, not before this time.
    Job { send_id: SendId, job: Box<DeliveryJob>, not_before: Timestamp },
    /// A user was erased: for the inbox.
    Erased { user: UserNumber },
}

impl Message {
    pub(crate) fn send_id(&self) -> Option<SendId> {
        match self {
            Message::Erased { .. } => None,
            Message::Accepted { send_id, .. }
            | Message::Continues { send_id, .. }
            | Message::Job { send_id, .. } => Some(*send_id),
        }
    }
}

/// Where a message of a queue is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// It is handed out from then on.
    Waiting(Timestamp),
    /// Somebody has it, until then.
    Out(Timestamp),
    Acknowledged,
}

/// Messages of a queue, and the ids that it knows.
#[derive(Debug, Default)]
struct Messages {
    all: Vec<(Message, Place)>,
    names: BTreeMap<Name, Timestamp>,
}

/// Which message of which queue, by its place.
pub(crate) type Seq = (Queue, usize);

/// What is told of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Told {
    pub(crate) delivery: DeliveryId,
    pub(crate) attempt: u32,
    pub(crate) status: Status,
}

/// All streams.
#[derive(Debug, Default)]
pub(crate) struct Log {
    queues: [Messages; 3],
    /// The partitions of the inbox. The first event has the sequence 1.
    pub(crate) inbox: [Vec<Envelope>; PARTITIONS as usize],
    /// What became of deliveries. Repeats are told under the same id.
    pub(crate) told: BTreeSet<Told>,
}

impl Log {
    /// Appends a message, unless one with its id is known.
    pub(crate) fn publish(&mut self, queue: Queue, name: Name, message: Message, now: Timestamp) {
        let messages = &mut self.queues[queue as usize];
        let known = messages.names.get(&name);
        if known.is_some_and(|&at| now.since(at) < DUPLICATE_WINDOW) {
            return;
        }
        messages.names.insert(name, now);
        messages.all.push((message, Place::Waiting(now)));
    }

    /// Appends to a partition of the inbox, and returns the event's sequence.
    pub(crate) fn append(&mut self, partition: u32, event: Envelope) -> u64 {
        let events = &mut self.inbox[partition as usize];
        events.push(event);
        events.len() as u64
    }

    /// Hands out one of the messages that wait, which one the dice decide.
    pub(crate) fn fetch(&mut self, queues: &[Queue], now: Timestamp, dice: &mut Dice) -> Option<Seq> {
        let due = |queue: Queue| {
            let messages = self.queues[queue as usize].all.iter().enumerate();
            messages.filter(move |(_, (_, place))| place.is_due(now)).map(move |(index, _)| (queue, index))
        };
        let many = queues.iter().flat_map(|queue| due(*queue)).count();
        if many == 0 {
            return None;
        }
        let seq = queues.iter().flat_map(|queue| due(*queue)).nth(dice.below(many))?;
        *self.place(seq) = Place::Out(now + ACK_WAIT);
        Some(seq)
    }

    pub(crate) fn message(&self, (queue, index): Seq) -> &Message {
        &self.queues[queue as usize].all[index].0
    }

    fn place(&mut self, (queue, index): Seq) -> &mut Place {
        &mut self.queues[queue as usize].all[index].1
    }

    /// An acknowledgement counts for the message, whoever sends it.
    pub(crate) fn acknowledge(&mut self, seq: Seq) {
        *self.place(seq) = Place::Acknowledged;
    }

    /// Hands a message back, to come again then.
    pub(crate) fn again(&mut self, seq: Seq, at: Timestamp) {
        if *self.place(seq) != Place::Acknowledged {
            *self.place(seq) = Place::Waiting(at);
        }
    }

    /// A sign of life: somebody is at work on it.
    pub(crate) fn in_progress(&mut self, seq: Seq, now: Timestamp) {
        if let Place::Out(until) = self.place(seq) {
            *until = now + ACK_WAIT;
        }
    }

    /// The server forgets what became of a message.
    pub(crate) fn forget(&mut self, now: Timestamp, dice: &mut Dice) -> Option<Seq> {
        let mut known = Vec::new();
        for queue in [Queue::Sends, Queue::Emails, Queue::Texts] {
            let messages = self.queues[queue as usize].all.iter().enumerate();
            let gone = messages.filter(|(_, (_, place))| !matches!(place, Place::Waiting(_)));
            known.extend(gone.map(|(index, _)| (queue, index)));
        }
        let seq = *dice.of(&known)?;
        *self.place(seq) = Place::Waiting(now);
        Some(seq)
    }

    /// When messages are handed out again.
    pub(crate) fn due(&self) -> impl Iterator<Item = Timestamp> {
        let places = self.queues.iter().flat_map(|messages| messages.all.iter().map(|(_, place)| place));
        places.filter_map(|place| match place {
            Place::Waiting(at) | Place::Out(at) => Some(*at),
            Place::Acknowledged => None,
        })
    }
}

impl Place {
    fn is_due(self, now: Timestamp) -> bool {
        match self {
            Place::Waiting(at) | Place::Out(at) => at <= now,
            Place::Acknowledged => false,
        }
    }
}
