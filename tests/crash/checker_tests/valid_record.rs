//! Record of a small run without violations. It contains a retry, a repeat that a kill explains, a dead phone, and a user who
//! reads and deletes items.

use domain::webhook::WebhookEvent;
use domain::{AppId, Channel, DeliveryIds, SendId, Status, UserNumber};
use serde_json::json;
use suite::checkpoint::{self, Checkpoint};
use uuid::Uuid;

use crate::journal::{Change, Line, Page, ShownItem};
use crate::record::{
    Attempt, Claim, Counters, Delivery, IntendedSend, Item, Outcome, Recipient, Record, ReportedSend,
    Request, Subject, Suppression, Webhook,
};
use crate::scene::{Accepted, Fault};
use crate::workload::{VisibleSend, email, identifier};

/// Ada is a user of the large app and works in her inbox; Bob is a user of a small app.
pub(super) const LARGE: AppId = AppId(1);
pub(super) const SMALL: AppId = AppId(2);
pub(super) const ADA: i64 = 10;
pub(super) const BOB: i64 = 20;
/// Two sends to Ada, one to Bob.
pub(super) const SENDS: [Uuid; 3] = [Uuid::from_u128(0xa0), Uuid::from_u128(0xa1), Uuid::from_u128(0xb0)];
/// Inbox items of these sends.
pub(super) const ITEMS: [i64; 3] = [2048, 4096, 2560];
const PHONE: &str = "+14150000000";
const TOKEN: &str = "apns:00ff";

/// The send whose handling ends the process.
pub(super) const POISON: Uuid = Uuid::from_u128(0xc0);

pub(super) fn delivery_id(send: Uuid, user: i64, channel: Channel, target: &str) -> Uuid {
    DeliveryIds::Hashed.derive(SendId(send), UserNumber(user), channel, target).0
}

/// Delivery of the first send to Ada's email address. The provider was called twice.
pub(super) fn repeated() -> Uuid {
    delivery_id(SENDS[0], ADA, Channel::Email, &email(0, 0))
}

/// Delivery of the first send to Ada by SMS.
pub(super) fn short() -> Uuid {
    delivery_id(SENDS[0], ADA, Channel::Sms, PHONE)
}

/// Delivery to Bob's phone, whose push token is dead.
pub(super) fn dead() -> Uuid {
    delivery_id(SENDS[2], BOB, Channel::MobilePush, TOKEN)
}

pub(super) fn title(number: usize) -> String {
    format!("notice-{number:07}")
}

pub(super) fn valid() -> Record {
    let mut record = Record::default();
    record.tables.users.insert(ADA, (LARGE, identifier(0)));
    record.tables.users.insert(BOB, (SMALL, identifier(1)));
    let of_ada = [(Channel::Email, [email(0, 0)].into()), (Channel::Sms, [PHONE.to_owned()].into())];
    let of_bob = [(Channel::Email, [email(1, 0)].into()), (Channel::MobilePush, [TOKEN.to_owned()].into())];
    record.targets.insert((LARGE, identifier(0)), of_ada.into());
    record.targets.insert((SMALL, identifier(1)), of_bob.into());
    let all = [Channel::InApp, Channel::Email, Channel::Sms];
    send(&mut record, 0, (LARGE, ADA), &all);
    send(&mut record, 1, (LARGE, ADA), &[Channel::InApp, Channel::WebPush]);
    send(&mut record, 2, (SMALL, BOB), &[Channel::InApp, Channel::MobilePush]);
    deliver(&mut record);
    read(&mut record);
    add_webhooks(&mut record);
    record.journal.push(Line::Confirmed { notice: 0, request: SENDS[0], at: 90_000 });
    record.journal.push(Line::Moved { user: 0, changes: 1, status: Some(200), at: 90_000 });
    record.faults.push(Fault { what: "kill email-1".to_owned(), from: 20_500, until: 21_000 });
    record.poison = POISON;
    record.parked = vec![(Some(POISON), "3 processes ended while they handled this message".to_owned())];
    record.faults.extend((0..5).map(|number| poisoned(5_000 + 1_000 * number)));
    for (place, _) in checkpoint::places(2) {
        record.samples.extend([0, 3, 7].map(|seq| Checkpoint { place: place.clone(), seq }));
        record.tables.checkpoints.insert(place.clone(), 7);
        record.log.ends.insert(place, 7);
    }
    let wait = |number: i64| 1_000 + number * 10;
    let visible =
        |number| VisibleSend { notice: 2, confirmed_at: 100_000, visible_at: 100_000 + wait(number) };
    record.visible = (0..120).map(visible).collect();
    record.log.items = record.tables.items.clone();
    record.verified = json!({"equal": true});
    record
}

/// A process that handled the poison. The fault ends before the first provider is called.
pub(super) fn poisoned(from: i64) -> Fault {
    Fault { what: format!("{} dispatcher-1", sabotage::POISONED), from, until: from + 500 }
}

/// Adds a confirmed and planned send with its item. Channels without a target are skipped.
fn send(record: &mut Record, number: usize, (app, user): (AppId, i64), channels: &[Channel]) {
    let (title, request) = (title(number), SENDS[number]);
    let name = record.tables.users[&user].1.clone();
    let recipients = vec![name.clone()];
    let asked = IntendedSend {
        app,
        title: title.clone(),
        recipients,
        to_topic: false,
        channels: channels.to_vec(),
        is_small: app == SMALL,
    };
    record.asked.insert(number, asked);
    let (notice, at) = (number, 10_000);
    record.journal.push(Line::Tried { notice, gateway: 0, at, status: None });
    record.journal.push(Line::Tried { notice, gateway: 1, at, status: Some(202) });
    record.journal.push(Line::Confirmed { notice, request, at });
    record.log.sends.insert(request);
    let targets = &record.targets[&(app, name.clone())];
    let reason = |channel: &Channel| match channel {
        channel if !channels.contains(channel) => Some("not_selected"),
        channel if *channel == Channel::InApp || targets.contains_key(channel) => None,
        _ => Some("no_address"),
    };
    let skip = |channel: &Channel| Some((channel.to_string(), reason(channel)?.to_owned()));
    let skips: Vec<_> = Channel::DELIVERED.iter().filter_map(skip).collect();
    let status = |channel: &Channel| match channel {
        channel if reason(channel).is_some() => "skipped",
        Channel::InApp => "delivered",
        Channel::MobilePush => "failed",
        _ => "sent",
    };
    let row = |channel: Channel| (name.clone(), channel.to_string(), status(&channel).to_owned());
    let deliveries = Channel::DELIVERED.map(row).to_vec();
    record.reported.insert(SENDS[number], ReportedSend { status: "completed".to_owned(), deliveries });
    let recipient = Recipient { index: 0, in_app: true, skips };
    let request = Request { app, title: title.clone(), recipients: [(name.clone(), recipient)].into() };
    record.tables.requests.insert(SENDS[number], request);
    let created_at = 10_000 + i64::try_from(number).unwrap();
    let (id, send) = (ITEMS[number], SENDS[number]);
    let item = Item { app: app.0, user, send, created_at, title: Some(title), ..Item::default() };
    record.tables.items.insert(id, item);
    let counters = record.tables.counters.entry((app.0, user)).or_default();
    let Counters { total, unread, unseen } = *counters;
    *counters = Counters { total: total + 1, unread: unread + 1, unseen: unseen + 1 };
    record.inboxes.entry((app, name)).or_default().push(shown(number));
}

pub(super) fn shown(number: usize) -> ShownItem {
    let created_at = 10_000 + i64::try_from(number).unwrap();
    ShownItem { id: ITEMS[number], title: title(number), created_at, ..ShownItem::default() }
}

/// The second attempt sends the email. Its worker is killed, so another worker repeats the attempt. The SMS is sent by its first
/// attempt. The delivery to the dead phone fails.
fn deliver(record: &mut Record) {
    let emails = [attempt(1, "retry", 11_000), attempt(2, "sent", 23_600)];
    let address = email(0, 0);
    deliver_one(record, 0, (ADA, Channel::Email, &address), &emails, (Status::Sent, None));
    deliver_one(record, 0, (ADA, Channel::Sms, PHONE), &[attempt(1, "sent", 11_000)], (Status::Sent, None));
    let gone = (Status::Failed, Some("target_gone"));
    deliver_one(record, 2, (BOB, Channel::MobilePush, TOKEN), &[attempt(1, "target_gone", 11_000)], gone);
    record.tables.deliveries.get_mut(&repeated()).unwrap().claims.insert(1, claim(2, 20_400));
    let key = (SMALL, Channel::MobilePush.to_string(), TOKEN.to_owned());
    record.tables.suppressions.insert(key, Suppression { is_in_log: true });
    record.log.suppressed.insert(dead());
    record.accepted = vec![
        accepted(repeated(), Channel::Email, &address, 20_490),
        accepted(repeated(), Channel::Email, &address, 23_610),
        accepted(short(), Channel::Sms, PHONE, 11_010),
    ];
}

pub(super) fn accepted(delivery: Uuid, channel: Channel, target: &str, at: i64) -> Accepted {
    Accepted { at, channel, delivery: delivery.to_string(), target: target.to_owned() }
}

pub(super) fn claim(attempt: i32, at: i64) -> Claim {
    Claim { attempt, at, is_late: false }
}

pub(super) fn attempt(number: i32, outcome: &str, at: i64) -> Attempt {
    Attempt { number, outcome: outcome.to_owned(), started_at: at }
}

fn deliver_one(
    record: &mut Record,
    number: usize,
    (user, channel, target): (i64, Channel, &str),
    attempts: &[Attempt],
    (status, reason): (Status, Option<&str>),
) {
    let id = delivery_id(SENDS[number], user, channel, target);
    let claim = |attempt: &Attempt| claim(attempt.number, attempt.started_at - 5);
    let last = attempts.len();
    let reason = reason.map(str::to_owned);
    let outcome = |(place, attempt): (usize, &Attempt)| Outcome {
        attempt: attempt.number,
        status: if place + 1 == last { status } else { Status::Retrying },
        reason: reason.clone().filter(|_| place + 1 == last),
    };
    record.log.outcomes.insert(id, attempts.iter().enumerate().map(outcome).collect());
    record.log.jobs.extend(attempts.iter().map(|attempt| (id, attempt.number)));
    let delivery = Delivery {
        app: record.tables.users[&user].0,
        send: SENDS[number],
        index: 0,
        user,
        channel,
        target: target.to_owned(),
        status,
        reason,
        attempt: i32::try_from(last).unwrap(),
        attempts: attempts.to_vec(),
        claims: attempts.iter().map(claim).collect(),
    };
    record.tables.deliveries.insert(id, delivery);
}

/// Ada sees both items, reads the first one, deletes the second one, and sets the state of the first one. The new state is
/// accepted but not visible yet.
fn read(record: &mut Record) {
    let all = Page { items: vec![shown(1), shown(0)], more: false, total: 2, unread: 2, unseen: 2 };
    let read = ShownItem { seen: true, read: true, ..shown(0) };
    let then = Page { items: vec![shown(1), read.clone()], more: false, total: 2, unread: 1, unseen: 1 };
    let last = Page { items: vec![read.clone()], more: false, total: 1, unread: 0, unseen: 0 };
    let (user, at, state) = (0, 60_000, "done".to_owned());
    let changed = |change, status| Line::Changed { user, change, status: Some(status), at };
    record.journal.extend([
        Line::Listed { user, page: all, at },
        changed(Change::Read(ITEMS[0]), 200),
        Line::Listed { user, page: then, at },
        changed(Change::Deleted(ITEMS[1]), 200),
        changed(Change::StateSet(ITEMS[0], state.clone()), 202),
        Line::Listed { user, page: last, at },
    ]);
    let first = record.tables.items.get_mut(&ITEMS[0]).unwrap();
    (first.seen_at, first.clicked_at, first.state) = (Some(at), Some(at), Some(state.clone()));
    let second = record.tables.items.get_mut(&ITEMS[1]).unwrap();
    (second.deleted_at, second.title) = (Some(at), None);
    record.tables.counters.insert((LARGE.0, ADA), Counters { total: 1, unread: 0, unseen: 0 });
    record.inboxes.insert((LARGE, identifier(0)), vec![ShownItem { state: Some(state), ..read }]);
}

/// The endpoints receive every final status and every item that Ada read. The webhook about the email is repeated, because the
/// answer to the first call was lost.
fn add_webhooks(record: &mut Record) {
    let sent = (WebhookEvent::DeliverySent, "sent", None);
    let failed = (WebhookEvent::DeliveryFailed, "failed", Some("target_gone"));
    let suppressed = (WebhookEvent::DeliverySuppressed, "failed", Some("target_gone"));
    let read = (WebhookEvent::NotificationRead, "read", None);
    record.webhooks = vec![
        webhook("sent-1", 0, Subject::Delivery(repeated()), sent),
        webhook("sent-2", 0, Subject::Delivery(short()), sent),
        webhook("failed", 2, Subject::Delivery(dead()), failed),
        webhook("sent-1", 0, Subject::Delivery(repeated()), sent),
        webhook("suppressed", 2, Subject::Delivery(dead()), suppressed),
        webhook("read", 0, Subject::Item(ITEMS[0]), read),
    ];
}

fn webhook(
    id: &str,
    send: usize,
    subject: Subject,
    (event, status, reason): (WebhookEvent, &str, Option<&str>),
) -> Webhook {
    let (app, user) = if send == 2 { (SMALL, 1) } else { (LARGE, 0) };
    let (status, reason) = (status.to_owned(), reason.map(str::to_owned));
    let (request, recipient) = (SENDS[send], identifier(user));
    Webhook { id: id.to_owned(), app, event, subject, request, recipient, status, reason }
}
