//! Defects of a record, each with the check that must find it.

use std::time::Duration;

use domain::{Channel, Status};
use suite::checkpoint::Place;
use uuid::Uuid;

use super::valid_record::{
    ADA, BOB, ITEMS, LARGE, POISON, SENDS, SMALL, accepted, dead, poisoned, repeated, short, shown,
};
use crate::journal::{Change, Line, Page};
use crate::record::{Delivery, Item, Outcome, Recipient, Record, Subject};
use crate::workload::{email, identifier};

type Falsify = fn(&mut Record);

fn of(record: &mut Record, id: Uuid) -> &mut Delivery {
    record.tables.deliveries.get_mut(&id).unwrap()
}

fn item(record: &mut Record, number: usize) -> &mut Item {
    record.tables.items.get_mut(&ITEMS[number]).unwrap()
}

/// One of the lists that Ada saw. Number 0 is the earliest.
fn page(record: &mut Record, number: usize) -> &mut Page {
    let mut pages = record.journal.iter_mut().filter_map(|line| match line {
        Line::Listed { page, .. } => Some(page),
        _ => None,
    });
    pages.nth(number).unwrap()
}

/// Records that Ada archived the first item after one of the lists, and that the change was confirmed.
fn archive_first(record: &mut Record, list: usize) {
    let lists = record.journal.iter().enumerate().filter(|(_, line)| matches!(line, Line::Listed { .. }));
    let (place, _) = lists.clone().nth(list).unwrap();
    let (change, status) = (Change::Archived(ITEMS[0]), Some(200));
    record.journal.insert(place + 1, Line::Changed { user: 0, change, status, at: 60_000 });
}

/// The plan for the recipient of a send.
fn planned(record: &mut Record, number: usize) -> &mut Recipient {
    let request = record.tables.requests.get_mut(&SENDS[number]).unwrap();
    request.recipients.values_mut().next().unwrap()
}

/// Removes a delivery, and records its channel as skipped for this reason.
fn skip(record: &mut Record, id: Uuid, reason: &str) {
    let delivery = record.tables.deliveries.remove(&id).unwrap();
    planned(record, 0).skips.push((delivery.channel.to_string(), reason.to_owned()));
}

/// Key of the checkpoint that the webhooks service has in the stream of outcomes.
fn webhooks_checkpoint() -> Place {
    ("webhooks".to_owned(), "OUTCOME".to_owned())
}

fn reported(attempt: i32, status: Status) -> Outcome {
    Outcome { attempt, status, reason: None }
}

const POISON_IS_PARKED: &str = "a send that ends processes is parked, and nothing else is";
const TELL: &str = "webhooks report how every delivery ended, and what was read";

/// Changes to a valid record, each with the name of the check that must find it.
pub(super) const FALSIFIED: &[(&str, Falsify)] = &[
    ("every confirmed send is in the log", |record| record.log.sends.clear()),
    ("every confirmed send is in the log", |record| record.log.unreadable.push("OUTCOME 7".to_owned())),
    ("every confirmed send has ended for every recipient", |record| {
        of(record, short()).status = Status::Sending;
    }),
    ("every confirmed send has ended for every recipient", |record| {
        record.tables.requests.remove(&SENDS[1]);
    }),
    ("every confirmed send has ended for every recipient", |record| {
        record.tables.requests.get_mut(&SENDS[1]).unwrap().recipients.clear();
    }),
    ("every confirmed send has ended for every recipient", |record| {
        record.tables.deliveries.remove(&short());
    }),
    ("every confirmed send has ended for every recipient", |record| {
        record.tables.items.remove(&ITEMS[2]);
    }),
    ("every confirmed send has ended for every recipient", |record| {
        record.asked.get_mut(&1).unwrap().channels.push(Channel::Email);
    }),
    ("every confirmed send has ended for every recipient", |record| {
        record.asked.get_mut(&0).unwrap().channels.retain(|channel| *channel != Channel::Sms);
    }),
    ("every confirmed send has ended for every recipient", |record| {
        record.asked.get_mut(&1).unwrap().channels.retain(|channel| *channel != Channel::InApp);
    }),
    ("every confirmed send has ended for every recipient", |record| {
        planned(record, 1).skips.push(("inApp".to_owned(), "recipient_unknown".to_owned()));
    }),
    ("every confirmed send has ended for every recipient", |record| {
        skip(record, short(), "no_address");
    }),
    ("every confirmed send has ended for every recipient", |record| skip(record, short(), "suppressed")),
    ("every confirmed send has ended for every recipient", |record| skip(record, short(), "preference_off")),
    ("every confirmed send has ended for every recipient", |record| {
        of(record, repeated()).status = Status::Unknown;
    }),
    ("every confirmed send has ended for every recipient", |record| {
        of(record, short()).status = Status::Cancelled;
    }),
    ("every confirmed send has ended for every recipient", |record| {
        (of(record, short()).status, of(record, short()).reason) = (Status::Skipped, None);
    }),
    ("the API reports how every send ended", |record| {
        record.reported.get_mut(&SENDS[0]).unwrap().status = "processing".to_owned();
    }),
    ("the API reports how every send ended", |record| {
        record.reported.get_mut(&SENDS[0]).unwrap().deliveries.remove(1);
    }),
    ("the API reports how every send ended", |record| {
        record.reported.get_mut(&SENDS[0]).unwrap().deliveries[1].2 = "failed".to_owned();
    }),
    ("the API reports how every send ended", |record| {
        let again = record.reported[&SENDS[0]].deliveries[1].clone();
        record.reported.get_mut(&SENDS[0]).unwrap().deliveries.push(again);
    }),
    ("nothing was sent that no client asked for", |record| drop(record.asked.remove(&1))),
    ("nothing was sent that no client asked for", |record| {
        record.asked.get_mut(&2).unwrap().recipients = vec![identifier(7)];
    }),
    ("nothing was sent that no client asked for", |record| {
        record.asked.get_mut(&0).unwrap().channels.retain(|channel| *channel != Channel::Sms);
    }),
    ("nothing was sent that no client asked for", |record| {
        record.asked.get_mut(&1).unwrap().channels.retain(|channel| *channel != Channel::InApp);
    }),
    ("nothing was sent that no client asked for", |record| planned(record, 0).index = 1),
    ("nothing was sent that no client asked for", |record| of(record, short()).user = BOB),
    ("nothing was sent that no client asked for", |record| of(record, short()).index = 1),
    ("nothing was sent that no client asked for", |record| of(record, repeated()).target = email(1, 0)),
    ("nothing was sent that no client asked for", |record| of(record, dead()).app = LARGE),
    ("nothing was sent that no client asked for", |record| item(record, 0).send = Uuid::from_u128(9)),
    ("nothing was sent that no client asked for", |record| item(record, 2).user = ADA),
    ("nothing was sent that no client asked for", |record| {
        record.inboxes.get_mut(&(SMALL, identifier(1))).unwrap().push(shown(0));
    }),
    ("a repeated request is the same send", |record| {
        record.journal.push(Line::Confirmed { notice: 0, request: SENDS[1], at: 0 });
    }),
    ("a repeated request is the same send", |record| {
        let again = record.tables.requests[&SENDS[1]].clone();
        record.tables.requests.insert(Uuid::from_u128(9), again);
    }),
    ("no client got an unexpected status", |record| {
        record.journal.push(Line::Tried { notice: 0, gateway: 0, at: 0, status: Some(500) });
    }),
    ("no client got an unexpected status", |record| {
        record.journal.push(Line::NotListed { user: 0, status: Some(500), at: 0 });
    }),
    ("no client got an unexpected status", |record| {
        record.journal.push(Line::NotListed { user: 0, status: Some(404), at: 0 });
    }),
    ("every inbox has its items once", |record| {
        let again = item(record, 0).clone();
        record.tables.items.insert(99, again);
    }),
    ("every inbox has its items once", |record| {
        record.inboxes.get_mut(&(SMALL, identifier(1))).unwrap().push(shown(2));
    }),
    ("every inbox has its items once", |record| {
        record.inboxes.get_mut(&(SMALL, identifier(1))).unwrap().clear();
    }),
    ("every inbox has its items once", |record| item(record, 2).deleted_at = Some(1)),
    ("every inbox has its items once", |record| item(record, 2).archived_at = Some(1)),
    ("every counter equals a recount", |record| {
        record.tables.counters.get_mut(&(LARGE.0, ADA)).unwrap().unread = 1;
    }),
    ("every counter equals a recount", |record| record.tables.counters.clear()),
    ("the log alone gives the same inboxes", |record| drop(record.log.items.remove(&ITEMS[0]))),
    ("the log alone gives the same inboxes", |record| {
        record.log.items.get_mut(&ITEMS[0]).unwrap().seen_at = Some(1);
    }),
    ("tidings verify finds the inboxes equal", |record| record.verified["equal"] = false.into()),
    ("no list contradicts an earlier response", |record| page(record, 1).items[1].read = false),
    ("no list contradicts an earlier response", |record| drop(page(record, 1).items.remove(0))),
    ("no list contradicts an earlier response", |record| page(record, 2).items.push(shown(1))),
    ("no list contradicts an earlier response", |record| page(record, 0).unread = 1),
    ("no list contradicts an earlier response", |record| {
        page(record, 0).items[0].title = "notice-0000000".to_owned();
    }),
    ("no list contradicts an earlier response", |record| {
        let (change, status) = (Change::Seen(ITEMS[0]), Some(404));
        record.journal.push(Line::Changed { user: 0, change, status, at: 0 });
    }),
    ("no list contradicts an earlier response", |record| archive_first(record, 0)),
    ("every accepted change was made", |record| archive_first(record, 2)),
    ("every accepted change was made", |record| item(record, 0).clicked_at = None),
    ("every accepted change was made", |record| item(record, 0).state = None),
    ("every accepted change was made", |record| item(record, 1).deleted_at = None),
    ("every accepted change was made", |record| drop(record.tables.items.remove(&ITEMS[1]))),
    ("a chunk is planned once", |record| {
        let other = Delivery { target: email(0, 1), ..of(record, repeated()).clone() };
        record.tables.deliveries.insert(Uuid::from_u128(9), other);
    }),
    ("delivery ids are deterministic", |record| of(record, short()).target = "+1".to_owned()),
    ("every attempt has its job in the log", |record| record.log.jobs.clear()),
    ("every attempt has its job in the log", |record| of(record, repeated()).attempts[1].number = 3),
    ("only the last claim settles", |record| of(record, short()).claims[0].at = 11_001),
    ("only the last claim settles", |record| of(record, short()).claims.clear()),
    // The claim that inserted the row was not recorded.
    ("only the last claim settles", |record| of(record, repeated()).claims.retain(|claim| claim.attempt > 1)),
    ("the ledger agrees with what providers accepted", |record| drop(record.accepted.remove(2))),
    ("the ledger agrees with what providers accepted", |record| {
        record.accepted.push(accepted(Uuid::from_u128(9), Channel::Email, &email(0, 0), 0));
    }),
    ("the ledger agrees with what providers accepted", |record| record.accepted[2].target = "+1".to_owned()),
    ("nothing is accepted twice unless a fault explains it", |record| record.faults.clear()),
    ("nothing is accepted twice unless a fault explains it", |record| {
        record.faults[0].what = "kill sms-1".to_owned();
    }),
    ("nothing is accepted twice unless a fault explains it", |record| record.faults[0].from += 4_000),
    ("nothing is accepted twice unless a fault explains it", |record| {
        record.accepted.push(accepted(repeated(), Channel::Email, &email(0, 0), 40_000));
    }),
    // Both acceptances belong to the second attempt, which was answered. The unknown outcome of the first attempt does not
    // explain them.
    ("nothing is accepted twice unless a fault explains it", |record| {
        record.faults.clear();
        of(record, repeated()).attempts[0].outcome = "unknown".to_owned();
        of(record, repeated()).attempts[1].started_at = 20_410;
    }),
    ("no SMS is accepted twice", |record| {
        let again = record.accepted[2].clone();
        record.accepted.push(again);
    }),
    ("no delivery to a suppressed target is claimed", |record| of(record, dead()).claims[0].is_late = true),
    ("no delivery to a suppressed target is claimed", |record| {
        record.tables.suppressions.values_mut().for_each(|suppression| suppression.is_in_log = false);
    }),
    ("checkpoints only grow, to the end of the log", |record| {
        record.tables.stepped_back.push((webhooks_checkpoint(), 5, 4));
    }),
    ("checkpoints only grow, to the end of the log", |record| record.samples[1].seq = 8),
    ("checkpoints only grow, to the end of the log", |record| record.tables.checkpoints.clear()),
    ("checkpoints only grow, to the end of the log", |record| {
        record.log.ends.insert(("inbox".to_owned(), "INBOX_0".to_owned()), 8);
    }),
    ("checkpoints only grow, to the end of the log", |record| {
        record.tables.checkpoints.remove(&webhooks_checkpoint());
    }),
    ("the log agrees with the ledger", |record| drop(record.log.outcomes.remove(&short()))),
    ("the log agrees with the ledger", |record| {
        record.log.outcomes.get_mut(&short()).unwrap().push(reported(1, Status::Failed));
    }),
    ("the log agrees with the ledger", |record| {
        record.log.outcomes.get_mut(&short()).unwrap().push(reported(1, Status::Retrying));
    }),
    ("the log agrees with the ledger", |record| {
        record.log.outcomes.insert(Uuid::from_u128(9), vec![reported(1, Status::Sent)]);
    }),
    (TELL, |record| record.webhooks.retain(|webhook| webhook.id != "sent-1")),
    (TELL, |record| record.webhooks.retain(|webhook| webhook.id != "suppressed")),
    (TELL, |record| record.webhooks.retain(|webhook| webhook.id != "read")),
    (TELL, |record| record.webhooks[0].status = "delivered".to_owned()),
    (TELL, |record| record.webhooks[0].app = SMALL),
    (TELL, |record| record.webhooks[0].recipient = identifier(1)),
    (TELL, |record| record.webhooks[0].request = SENDS[1]),
    (TELL, |record| record.webhooks[2].reason = None),
    (TELL, |record| record.webhooks[5].subject = Subject::Item(ITEMS[2])),
    ("webhooks of a delivery come in order, each under one id", |record| {
        record.webhooks[3].id = "sent-3".to_owned();
    }),
    ("webhooks of a delivery come in order, each under one id", |record| {
        record.webhooks[1].id = "sent-1".to_owned();
    }),
    ("webhooks of a delivery come in order, each under one id", |record| record.webhooks.swap(2, 4)),
    ("no message was dead-lettered", |record| record.tables.dead_letters.push("event of INBOX_0".to_owned())),
    (POISON_IS_PARKED, |record| record.parked.clear()),
    (POISON_IS_PARKED, |record| record.parked.push((Some(SENDS[0]), "3 processes ended".to_owned()))),
    (POISON_IS_PARKED, |record| record.parked.push((None, "3 processes ended".to_owned()))),
    (POISON_IS_PARKED, |record| record.faults.push(poisoned(9_500))),
    (POISON_IS_PARKED, |record| {
        let planned = record.tables.requests[&SENDS[0]].clone();
        record.tables.requests.insert(POISON, planned);
    }),
    ("small apps do not wait for the large one", |record| {
        record.visible.iter_mut().for_each(|visible| visible.visible_at += 5_000);
    }),
    ("small apps do not wait for the large one", |record| record.visible.truncate(10)),
    ("all work is done within two minutes", |record| record.waiting.took = Duration::from_secs(121)),
    ("all work is done within two minutes", |record| record.waiting.left = Some("1 timers".to_owned())),
    ("the system was idle while it was checked", |record| record.meanwhile = 1),
    ("small apps do not wait for the large one", |record| {
        record.asked.values_mut().for_each(|asked| asked.is_small = false);
    }),
];
