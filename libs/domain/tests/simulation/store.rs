//! The database: tables whose transactions happen at one moment or not at all.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::rc::Rc;

use domain::plan::{self, Decision, SendFacts, Suppressed};
use domain::{Channel, DeliveryId, SendId, SendRequest, Status, Timestamp, UserNumber};

use crate::choice::Actor;
use crate::dice::Dice;
use crate::directory::Directory;
use crate::ledger::{Row, Surroundings};
use crate::log::{Message, PARTITIONS, Queue};
use crate::mutant::Mutant;
use crate::read_model::ReadModel;

/// Recipients of a chunk.
pub(crate) const TURN: usize = 2;

/// A chunk of a send.
#[derive(Clone, Debug)]
pub(crate) struct Chunk {
    pub(crate) send_id: SendId,
    pub(crate) chunk: u32,
    pub(crate) accepted_at: Timestamp,
    pub(crate) send: Rc<SendRequest>,
}

impl Chunk {
    pub(crate) fn is_last(&self) -> bool {
        (self.chunk as usize + 1) * TURN >= self.send.recipients.len()
    }
}

/// Whether its body is kept for chunks that no message carries.
pub(crate) fn is_kept(send: &SendRequest) -> bool {
    send.recipients.len() > TURN || send.send_at.is_some()
}

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct RequestRow {
    /// When it was cancelled, counted in moves.
    pub(crate) cancelled_in: Option<u64>,
    pub(crate) accepted_at: Timestamp,
    /// The send, while chunks are to come.
    pub(crate) body: Option<Rc<SendRequest>>,
}

/// A message to publish at its time.
#[derive(Clone, Debug)]
pub(crate) struct Timer {
    pub(crate) due_at: Timestamp,
    pub(crate) queue: Queue,
    pub(crate) message: Message,
    /// Whose transaction holds it.
    pub(crate) held_by: Option<Actor>,
}

/// Every table.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) keys: BTreeMap<usize, SendId>,
    pub(crate) requests: BTreeMap<SendId, RequestRow>,
    /// What was decided for chunks. Deliveries are rows of their own from then on.
    pub(crate) plans: BTreeMap<(SendId, u32), Vec<Decision>>,
    pub(crate) deliveries: BTreeMap<DeliveryId, Row>,
    pub(crate) timers: BTreeMap<u64, Timer>,
    pub(crate) suppressed: Suppressed,
    /// When that was, counted in moves.
    pub(crate) suppressed_in: BTreeMap<(Channel, String), u64>,
    pub(crate) checkpoints: [u64; PARTITIONS as usize],
    pub(crate) inbox: ReadModel,
    pub(crate) directory: Directory,
    pub(crate) erased: Vec<Erasure>,
}

/// That a person was erased.
#[derive(Debug)]
pub(crate) struct Erasure {
    identifier: String,
    pub(crate) user: UserNumber,
    at: Timestamp,
    /// When that was, counted in moves.
    pub(crate) made_in: u64,
}

impl Store {
    pub(crate) fn new() -> Store {
        Store {
            keys: BTreeMap::new(),
            requests: BTreeMap::new(),
            plans: BTreeMap::new(),
            deliveries: BTreeMap::new(),
            timers: BTreeMap::new(),
            suppressed: Suppressed::new(),
            suppressed_in: BTreeMap::new(),
            checkpoints: [0; PARTITIONS as usize],
            inbox: ReadModel::default(),
            directory: Directory::new(),
            erased: Vec::new(),
        }
    }

    /// Keeps a send for its time, unless that was done before. False where its first chunk is frozen by now.
    pub(crate) fn schedule(&mut self, chunk: &Chunk, id: u64, timer: Timer) -> bool {
        if let Entry::Vacant(row) = self.requests.entry(chunk.send_id) {
            let body = Some(Rc::clone(&chunk.send));
            row.insert(RequestRow { cancelled_in: None, accepted_at: chunk.accepted_at, body });
            self.timers.insert(id, timer);
        }
        !self.plans.contains_key(&(chunk.send_id, 0))
    }

    /// Freezes a chunk, or reads what was frozen: the decisions to act on.
    pub(crate) fn freeze(&mut self, chunk: &Chunk, mutant: Option<Mutant>) -> Vec<Decision> {
        let Chunk { send_id, chunk, accepted_at, ref send } = *chunk;
        let is_frozen = self.plans.contains_key(&(send_id, chunk));
        if is_frozen && mutant != Some(Mutant::PlanNotFrozen) {
            return self.frozen(send_id, chunk, mutant);
        }
        let body = is_kept(send).then(|| Rc::clone(send));
        let row = RequestRow { cancelled_in: None, accepted_at, body };
        let row = self.requests.entry(send_id).or_insert(row);
        let is_cancelled = row.cancelled_in.is_some();
        let decisions = self.decide(send_id, chunk, accepted_at, send, is_cancelled);
        for (place, decision) in decisions.iter().enumerate() {
            let recipient = chunk * TURN as u32 + place as u32;
            for delivery in &decision.deliveries {
                let row = Row::new(send_id, recipient, decision.user, delivery, send.expires_at);
                self.deliveries.entry(delivery.id).or_insert(row);
            }
        }
        self.plans.entry((send_id, chunk)).or_insert_with(|| decisions.clone());
        decisions
    }

    fn decide(
        &self,
        send_id: SendId,
        chunk: u32,
        accepted_at: Timestamp,
        send: &SendRequest,
        is_cancelled: bool,
    ) -> Vec<Decision> {
        let facts = SendFacts {
            send_id,
            selected: send.channels.as_deref(),
            content: &Channel::DELIVERED,
            providers: &[Channel::Email, Channel::Sms],
            push_kinds: &[],
        };
        let recipients = send.recipients.chunks(TURN).nth(chunk as usize).unwrap_or_default();
        let decisions = recipients.iter().map(|recipient| {
            let person = self.directory.find(&recipient.identifier);
            let is_erased =
                |erasure: &Erasure| erasure.identifier == recipient.identifier && erasure.at >= accepted_at;
            if self.erased.iter().any(is_erased) {
                return plan::decide_erased(&facts);
            }
            match is_cancelled {
                true => plan::decide_cancelled(&facts, recipient, person),
                false => plan::decide(&facts, recipient, person, &self.suppressed),
            }
        });
        decisions.collect()
    }

    /// The decisions of a chunk, without the deliveries that have gone on since. Of those that were cancelled somebody has
    /// to tell.
    fn frozen(&self, send_id: SendId, chunk: u32, mutant: Option<Mutant>) -> Vec<Decision> {
        let mut decisions = self.plans[&(send_id, chunk)].clone();
        for decision in &mut decisions {
            decision.deliveries.retain(|delivery| {
                let ledger = &self.deliveries[&delivery.id].ledger;
                let is_to_be_told =
                    ledger.status == Status::Cancelled && mutant != Some(Mutant::CancelledNotOrdered);
                ledger.attempt == 1 && (ledger.status == Status::Queued || is_to_be_told)
            });
        }
        decisions
    }

    /// A delivery, brought up to the present.
    pub(crate) fn delivery(
        &mut self,
        id: DeliveryId,
        now: Timestamp,
        mutant: Option<Mutant>,
    ) -> Option<&mut Row> {
        let row = self.deliveries.get_mut(&id)?;
        let request = self.requests.get(&row.send_id);
        let around = Surroundings {
            erased: mutant != Some(Mutant::ErasureIgnored)
                && self.erased.iter().any(|erasure| Some(erasure.user) == row.user),
            cancelled: request.is_some_and(|request| request.cancelled_in.is_some())
                && mutant != Some(Mutant::CancellationIgnored),
            suppressed: mutant != Some(Mutant::SuppressionIgnored)
                && self.suppressed.contains(&(row.channel, row.target.clone())),
        };
        row.refresh(now, around);
        Some(row)
    }

    /// Notes that a target is dead.
    pub(crate) fn suppress(&mut self, id: DeliveryId, moves: u64) {
        let Some(row) = self.deliveries.get(&id) else { return };
        let dead = (row.channel, row.target.clone());
        self.suppressed_in.entry(dead.clone()).or_insert(moves);
        self.suppressed.insert(dead);
    }

    /// Erases a person: what waits ends, and what was put off goes. The inbox is told by a timer.
    pub(crate) fn erase(
        &mut self,
        dice: &mut Dice,
        now: Timestamp,
        moves: u64,
        timer: u64,
    ) -> Option<UserNumber> {
        let (identifier, user) = self.directory.erase(dice)?;
        self.erased.push(Erasure { identifier, user, at: now, made_in: moves });
        let of_user = |row: &&mut Row| row.user == Some(user);
        for row in self.deliveries.values_mut().filter(of_user) {
            row.refresh(now, Surroundings { erased: true, ..Surroundings::default() });
            row.erase();
        }
        self.timers.retain(|_, timer| match &timer.message {
            Message::Job { job, .. } => job.user != user || timer.held_by.is_some(),
            _ => true,
        });
        let message = Message::Erased { user };
        self.timers.insert(timer, Timer { due_at: now, queue: Queue::Sends, message, held_by: None });
        Some(user)
    }

    /// Cancels a request: what waits ends, and what was put off comes at once.
    pub(crate) fn cancel(&mut self, send_id: SendId, now: Timestamp, moves: u64, mutant: Option<Mutant>) {
        let Some(row) = self.requests.get_mut(&send_id) else { return };
        if row.cancelled_in.is_some() {
            return;
        }
        row.cancelled_in = Some(moves);
        let ids: Vec<DeliveryId> = self.of_send(send_id).collect();
        for id in ids {
            if let Some(row) = self.delivery(id, now, mutant) {
                row.cancel(mutant);
            }
        }
        for timer in self.timers.values_mut().filter(|timer| timer.held_by.is_none()) {
            if timer.message.send_id() == Some(send_id) {
                timer.due_at = timer.due_at.min(now);
            }
        }
    }

    /// The deliveries of a send.
    pub(crate) fn of_send(&self, send_id: SendId) -> impl Iterator<Item = DeliveryId> {
        self.deliveries.iter().filter(move |(_, row)| row.send_id == send_id).map(|(id, _)| *id)
    }
}
