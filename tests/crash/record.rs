//! Record of a run: answers to clients, lists that users saw, tables, streams, and messages that providers accepted. The record
//! is plain data, so that the tests of the checks can falsify it. Times are in milliseconds since 1970.

mod api;
mod database;
mod gather;
mod log;
mod webhooks;

use std::collections::{BTreeMap, BTreeSet};

use domain::webhook::WebhookEvent;
use domain::{AppId, Channel, Status};
use serde_json::Value;
use suite::checkpoint::{Checkpoint, Place};
use uuid::Uuid;

pub(crate) use gather::gather;

use crate::conditions::Conditions;
use crate::idle::Waiting;
use crate::journal::{Line, ShownItem};
use crate::scene::{Accepted, Fault};
use crate::workload::VisibleSend;

/// All data that the checks of a run read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    /// Sends that the clients made, by number.
    pub(crate) asked: BTreeMap<usize, IntendedSend>,
    /// All targets that each user had during the run, as the ledger names them.
    pub(crate) targets: BTreeMap<User, Targets>,
    /// The clients' journal, in the order of writing.
    pub(crate) journal: Vec<Line>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) tables: Tables,
    pub(crate) log: Log,
    /// Messages that providers accepted, in order.
    pub(crate) accepted: Vec<Accepted>,
    /// Number of faults of providers, by name.
    pub(crate) provider_faults: BTreeMap<String, usize>,
    /// Inboxes of all users at the end, read over the API.
    pub(crate) inboxes: BTreeMap<User, Vec<ShownItem>>,
    /// Reports of the API at the end, by request. For a large run, this contains only a sample of the sends.
    pub(crate) reported: BTreeMap<Uuid, ReportedSend>,
    /// Webhooks that the apps' endpoints accepted, in order.
    pub(crate) webhooks: Vec<Webhook>,
    /// Output of `tidings verify --json`.
    pub(crate) verified: Value,
    /// Checkpoints that were read during the run, in order of time.
    pub(crate) samples: Vec<Checkpoint>,
    pub(crate) visible: Vec<VisibleSend>,
    /// Periods in which nats-server redelivered acknowledged sends.
    pub(crate) redeliveries: Vec<Fault>,
    /// Request of the send whose handling ends the process.
    pub(crate) poison: Uuid,
    /// Messages without a delivery in `tidings parked list`, each with its request and cause.
    pub(crate) parked: Vec<(Option<Uuid>, String)>,
    pub(crate) conditions: Conditions,
    /// Result of waiting until no work was left, before the record was assembled.
    pub(crate) waiting: Waiting,
    /// Number of messages that were added to the log while the record was assembled.
    pub(crate) meanwhile: u64,
}

/// A user's app and identifier.
pub(crate) type User = (AppId, String);

/// Addresses, tokens and subscriptions by channel.
pub(crate) type Targets = BTreeMap<Channel, BTreeSet<String>>;

/// A send as its client made it.
#[derive(Clone, Debug)]
pub(crate) struct IntendedSend {
    pub(crate) app: AppId,
    pub(crate) title: String,
    /// Identifiers of users, in the order of the send.
    pub(crate) recipients: Vec<String>,
    /// True if the send names a topic to which the recipients subscribe.
    pub(crate) to_topic: bool,
    pub(crate) channels: Vec<Channel>,
    /// True if one of the small apps made the send.
    pub(crate) is_small: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Tables {
    /// Users by number.
    pub(crate) users: BTreeMap<i64, User>,
    pub(crate) requests: BTreeMap<Uuid, Request>,
    pub(crate) deliveries: BTreeMap<Uuid, Delivery>,
    /// Suppressions by app, channel and target.
    pub(crate) suppressions: BTreeMap<(AppId, String, String), Suppression>,
    /// Inbox items by id.
    pub(crate) items: BTreeMap<i64, Item>,
    /// Counters by app and user number.
    pub(crate) counters: BTreeMap<(i64, i64), Counters>,
    pub(crate) checkpoints: BTreeMap<Place, i64>,
    /// Updates that did not move a checkpoint forward: the projection and stream, and the sequences before and after the update.
    pub(crate) stepped_back: Vec<(Place, i64, i64)>,
    /// Messages and events that were dead-lettered, with their causes.
    pub(crate) dead_letters: Vec<String>,
}

/// A send in the tables, with its plans.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) app: AppId,
    pub(crate) title: String,
    /// Planned recipients by identifier.
    pub(crate) recipients: BTreeMap<String, Recipient>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Recipient {
    pub(crate) index: i32,
    pub(crate) in_app: bool,
    /// Skipped channels, with their reasons.
    pub(crate) skips: Vec<(String, String)>,
}

/// A row of the ledger, with its attempts and claims.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub(crate) app: AppId,
    pub(crate) send: Uuid,
    /// The recipient's position in the send.
    pub(crate) index: i32,
    /// Number of the user.
    pub(crate) user: i64,
    pub(crate) channel: Channel,
    pub(crate) target: String,
    pub(crate) status: Status,
    pub(crate) reason: Option<String>,
    pub(crate) attempt: i32,
    /// In the order of their numbers.
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) claims: Vec<Claim>,
}

#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) number: i32,
    pub(crate) outcome: String,
    pub(crate) started_at: i64,
}

#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) attempt: i32,
    pub(crate) at: i64,
    /// True if the claim was granted after the suppression of its target was committed.
    pub(crate) is_late: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Suppression {
    /// True if the log has an event about the suppression.
    pub(crate) is_in_log: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) app: i64,
    /// Number of the user.
    pub(crate) user: i64,
    pub(crate) send: Uuid,
    pub(crate) created_at: i64,
    pub(crate) seen_at: Option<i64>,
    pub(crate) clicked_at: Option<i64>,
    pub(crate) deleted_at: Option<i64>,
    pub(crate) state: Option<String>,
    pub(crate) archived_at: Option<i64>,
    pub(crate) snoozed_until: Option<i64>,
    /// None for a tombstone.
    pub(crate) title: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    pub(crate) total: i64,
    pub(crate) unread: i64,
    pub(crate) unseen: i64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    /// Sends in the log.
    pub(crate) sends: BTreeSet<Uuid>,
    /// Delivery and attempt of each job.
    pub(crate) jobs: BTreeSet<(Uuid, i32)>,
    /// Outcome events of each delivery, in order.
    pub(crate) outcomes: BTreeMap<Uuid, Vec<Outcome>>,
    /// Deliveries for which the log has an event about the suppression of their target.
    pub(crate) suppressed: BTreeSet<Uuid>,
    /// Inbox items according to a replay of the log.
    pub(crate) items: BTreeMap<i64, Item>,
    /// Last sequence of each followed stream.
    pub(crate) ends: BTreeMap<Place, i64>,
    /// Messages that cannot be decoded.
    pub(crate) unreadable: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) attempt: i32,
    pub(crate) status: Status,
    pub(crate) reason: Option<String>,
}

/// Report of `GET /v3/requests/{id}` about a send.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReportedSend {
    pub(crate) status: String,
    /// Recipient, channel and status of every delivery.
    pub(crate) deliveries: Vec<(String, String, String)>,
}

/// A webhook that an app's endpoint accepted.
#[derive(Clone, Debug)]
pub(crate) struct Webhook {
    /// Value of the header `webhook-id`.
    pub(crate) id: String,
    /// App of the endpoint.
    pub(crate) app: AppId,
    pub(crate) event: WebhookEvent,
    pub(crate) subject: Subject,
    pub(crate) request: Uuid,
    /// Identifier of the user.
    pub(crate) recipient: String,
    pub(crate) status: String,
    pub(crate) reason: Option<String>,
}

/// Subject of a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    Delivery(Uuid),
    Item(i64),
}

impl Record {
    /// Number and request of each confirmed send, once per 202.
    pub(crate) fn confirmed(&self) -> impl Iterator<Item = (usize, Uuid)> {
        self.journal.iter().filter_map(|line| match line {
            Line::Confirmed { notice, request, .. } => Some((*notice, *request)),
            _ => None,
        })
    }

    /// Confirmed sends as their clients made them, by request.
    pub(crate) fn confirmed_sends(&self) -> BTreeMap<Uuid, &IntendedSend> {
        self.confirmed().filter_map(|(notice, request)| Some((request, self.asked.get(&notice)?))).collect()
    }

    /// Sends as their clients made them, by title.
    pub(crate) fn by_title(&self) -> BTreeMap<&str, &IntendedSend> {
        self.asked.values().map(|asked| (asked.title.as_str(), asked)).collect()
    }

    /// Returns true if a target of the user on this channel was suppressed.
    pub(crate) fn has_dead_target(&self, user: &User, channel: Channel) -> bool {
        let targets = self.targets.get(user).and_then(|targets| targets.get(&channel));
        targets.into_iter().flatten().any(|target| {
            self.tables.suppressions.contains_key(&(user.0, channel.to_string(), target.clone()))
        })
    }

    /// Numbers of users, by app and identifier.
    pub(crate) fn numbers(&self) -> BTreeMap<&User, i64> {
        self.tables.users.iter().map(|(number, user)| (user, *number)).collect()
    }
}
