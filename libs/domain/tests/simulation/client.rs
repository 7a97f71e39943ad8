//! The callers: backends that send, each with a key, until they have their answer, and people who change their inbox.

use std::rc::Rc;
use std::time::Duration;

use domain::content::InAppContent;
use domain::inbox::{AllChange, ItemChange};
use domain::overrides::Overrides;
use domain::send::Recipient;
use domain::{Channel, ItemId, Lane, SendId, SendRequest, Timestamp, UserNumber};

use crate::dice::Dice;
use crate::directory::{PEOPLE, identifier};
use crate::rule::Rule;
use crate::world::{World, short};

/// After which a caller that has no answer asks again.
const PATIENCE: Duration = Duration::from_secs(3);

/// What a backend wants to be sent. Its place among all is its key.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) send: Rc<SendRequest>,
    pub(crate) stage: Stage,
    /// The id that it was answered with.
    pub(crate) confirmed: Option<SendId>,
}

/// How far a backend is with its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It is about to ask.
    Asks,
    /// It has asked, then.
    Waits(Timestamp),
    Answered,
}

/// All callers.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    pub(crate) orders: Vec<Order>,
    /// Wishes to change an inbox, each the number that decides which and how.
    pub(crate) commands: Vec<u64>,
}

/// A change to an inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Item(ItemChange, ItemId),
    All(AllChange, ItemId),
}

/// A change that was answered 200.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    pub(crate) user: UserNumber,
    pub(crate) change: Change,
    pub(crate) partition: u32,
    pub(crate) seq: u64,
}

impl Clients {
    /// The orders that somebody asks for now.
    pub(crate) fn asking(&self, now: Timestamp) -> Vec<usize> {
        let asks = |order: &Order| match order.stage {
            Stage::Asks => true,
            Stage::Waits(since) => since + PATIENCE <= now,
            Stage::Answered => false,
        };
        (0..self.orders.len()).filter(|place| asks(&self.orders[*place])).collect()
    }

    pub(crate) fn due(&self) -> impl Iterator<Item = Timestamp> {
        self.orders.iter().filter_map(|order| match order.stage {
            Stage::Waits(since) => Some(since + PATIENCE),
            _ => None,
        })
    }
}

impl World {
    pub(crate) fn begin_send(&mut self, dice: &mut Dice) -> bool {
        let send = Rc::new(any_send(self.now, dice));
        let key = self.clients.orders.len();
        self.note(|| format!("    key {key}: {}", described(&send)));
        self.clients.orders.push(Order { send, stage: Stage::Asks, confirmed: None });
        true
    }

    pub(crate) fn ask_again(&mut self, dice: &mut Dice) -> bool {
        let orders = &self.clients.orders;
        let answered: Vec<usize> =
            (0..orders.len()).filter(|place| orders[*place].stage == Stage::Answered).collect();
        let Some(&place) = dice.of(&answered) else { return false };
        self.clients.orders[place].stage = Stage::Asks;
        true
    }

    /// A caller is told that it was not confirmed.
    pub(crate) fn refuse(&mut self, place: usize) {
        let order = &mut self.clients.orders[place];
        if order.stage != Stage::Answered {
            order.stage = Stage::Asks;
        }
    }

    /// A caller gets its 202.
    pub(crate) fn confirm(&mut self, place: usize, send_id: SendId) {
        let order = &mut self.clients.orders[place];
        order.stage = Stage::Answered;
        let before = *order.confirmed.get_or_insert(send_id);
        self.note(|| format!("    key {place}: 202, {}", short(send_id)));
        self.require(before == send_id, Rule::SameAnswer, || {
            format!("key {place} was {} and is {}", short(before), short(send_id))
        });
    }
}

/// A send to some people over some channels, sometimes for later, sometimes with an end.
fn any_send(now: Timestamp, dice: &mut Dice) -> SendRequest {
    let first = dice.below(PEOPLE + 1);
    let recipients = (0..1 + dice.below(4)).map(|next| (first + next) % (PEOPLE + 1));
    let channels = [
        None,
        Some(vec![Channel::InApp]),
        Some(vec![Channel::Email]),
        Some(vec![Channel::InApp, Channel::Email]),
        Some(vec![Channel::Sms]),
    ];
    let later = |dice: &mut Dice| now + Duration::from_secs(1 + dice.below(600) as u64);
    SendRequest {
        content: InAppContent::default(),
        template: None,
        category: None,
        recipients: recipients.map(|index| Recipient::plain(identifier(index))).collect(),
        channels: channels[dice.below(channels.len())].clone(),
        overrides: Overrides::default(),
        attachments: Vec::new(),
        send_at: dice.percent(20).then(|| later(dice)),
        expires_at: dice.percent(15).then(|| later(dice)),
        lane: Lane::Transactional,
        idempotency: None,
    }
}

fn described(send: &SendRequest) -> String {
    let to: Vec<&str> = send.recipients.iter().map(|recipient| recipient.identifier.as_str()).collect();
    let over: Vec<&str> = send.channels.iter().flatten().map(|channel| channel.as_str()).collect();
    let over = if over.is_empty() { "everything".to_owned() } else { over.join(", ") };
    let later = send.send_at.map(|_| ", later").unwrap_or_default();
    let ends = send.expires_at.map(|_| ", with an end").unwrap_or_default();
    format!("to {} over {over}{later}{ends}", to.join(", "))
}
