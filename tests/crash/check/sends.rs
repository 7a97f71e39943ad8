//! Answers to sends.

use std::collections::{BTreeMap, BTreeSet};

use domain::Channel;
use domain::send::CHUNK_RECIPIENTS;
use uuid::Uuid;

use crate::journal::Line;
use crate::record::{Delivery, IntendedSend, Record, User};

pub(crate) fn every_confirmed_send_is_in_the_log(record: &Record) -> Vec<String> {
    let lost = record.confirmed().filter(|(_, request)| !record.log.sends.contains(request));
    let mut wrong: Vec<String> = lost
        .map(|(notice, request)| {
            format!("send {notice} was confirmed as request {request}, which is not in the log")
        })
        .collect();
    wrong.extend(record.log.unreadable.iter().cloned());
    wrong
}

/// Every plan, item and delivery belongs to a client's send, and has a recipient and channel that this send names.
pub(crate) fn nothing_was_unrequested(record: &Record) -> Vec<String> {
    let (asked, numbers) = (record.by_title(), record.numbers());
    let mut wrong = Vec::new();
    for (id, request) in &record.tables.requests {
        let Some(asked) = asked.get(request.title.as_str()).filter(|asked| asked.app == request.app) else {
            wrong.push(format!("request {id}: no client sent {:?}", request.title));
            continue;
        };
        for (name, planned) in &request.recipients {
            let is_requested = at(asked, &numbers, planned.index) == Some(name);
            if !is_requested || (planned.in_app && !asked.channels.contains(&Channel::InApp)) {
                wrong
                    .push(format!("request {id}: planned {planned:?} for {name}, the client sent {asked:?}"));
            }
        }
    }
    wrong.extend(misdelivered(record));
    for (id, item) in &record.tables.items {
        let to = record.tables.users.get(&item.user);
        let asked = client_send_of(record, &asked, item.send);
        let is_requested = asked.zip(to).is_some_and(|(asked, (app, name))| {
            asked.channels.contains(&Channel::InApp) && asked.app == *app && asked.recipients.contains(name)
        });
        let title_is_right = item.title.is_none() || item.title.as_ref() == asked.map(|asked| &asked.title);
        if !is_requested || !title_is_right {
            wrong.push(format!("item {id} belongs to no client's send: {item:?}"));
        }
    }
    for (user, shown) in &record.inboxes {
        let was_sent = |title: &str| {
            asked.get(title).is_some_and(|asked| {
                let is_to_user = asked.app == user.0 && asked.recipients.contains(&user.1);
                is_to_user && asked.channels.contains(&Channel::InApp)
            })
        };
        let foreign = shown.iter().filter(|item| !was_sent(&item.title));
        wrong.extend(foreign.map(|item| format!("{user:?} sees {:?}", item.title)));
    }
    wrong
}

/// Deliveries whose user is not the recipient at their index, whose channel the send does not name, or whose target belongs to
/// another user.
fn misdelivered(record: &Record) -> Vec<String> {
    let (titles, numbers) = (record.by_title(), record.numbers());
    let is_right = |delivery: &Delivery| {
        let asked = client_send_of(record, &titles, delivery.send)?;
        let user = (asked.app, at(asked, &numbers, delivery.index)?.clone());
        let targets = record.targets.get(&user)?.get(&delivery.channel)?;
        let is_named = asked.app == delivery.app && asked.channels.contains(&delivery.channel);
        let is_theirs = numbers.get(&user) == Some(&delivery.user) && targets.contains(&delivery.target);
        Some(is_named && is_theirs)
    };
    let deliveries = record.tables.deliveries.iter();
    let wrong = deliveries.filter(|(_, delivery)| is_right(delivery) != Some(true));
    wrong.map(|(id, delivery)| format!("{id} belongs to no client's send: {delivery:?}")).collect()
}

/// Finds the client's send that has the title of a planned send.
fn client_send_of<'r>(
    record: &Record,
    titles: &BTreeMap<&str, &'r IntendedSend>,
    send: Uuid,
) -> Option<&'r IntendedSend> {
    titles.get(record.tables.requests.get(&send)?.title.as_str()).copied()
}

/// Recipient at a position of a send. The first chunk of a send to a topic is empty, and its subscribers follow in the order of their
/// numbers.
fn at<'r>(asked: &'r IntendedSend, numbers: &BTreeMap<&User, i64>, index: i32) -> Option<&'r String> {
    let index = usize::try_from(index).ok()?;
    if !asked.to_topic {
        return asked.recipients.get(index);
    }
    let mut subscribers: Vec<&String> = asked.recipients.iter().collect();
    subscribers.sort_by_key(|name| numbers.get(&(asked.app, (*name).clone())));
    subscribers.get(index.checked_sub(CHUNK_RECIPIENTS)?).copied()
}

/// All 202s for one idempotency key name the same request, and the send was planned only once.
pub(crate) fn a_repeat_is_the_same_send(record: &Record) -> Vec<String> {
    let mut reported: BTreeMap<usize, BTreeSet<Uuid>> = BTreeMap::new();
    for (notice, request) in record.confirmed() {
        reported.entry(notice).or_default().insert(request);
    }
    let mut planned: BTreeMap<&str, Vec<&Uuid>> = BTreeMap::new();
    for (id, request) in &record.tables.requests {
        planned.entry(request.title.as_str()).or_default().push(id);
    }
    let differing = reported.iter().filter(|(_, requests)| requests.len() > 1);
    let mut wrong: Vec<String> = differing
        .map(|(notice, requests)| format!("send {notice} was confirmed as several requests: {requests:?}"))
        .collect();
    for (title, requests) in planned {
        if requests.len() > 1 {
            wrong.push(format!("{title} was planned as several requests: {requests:?}"));
        }
    }
    wrong
}

/// A temporary failure is a 503, a 408 or a broken connection; a 500 is a defect.
pub(crate) fn no_client_got_an_unexpected_status(record: &Record) -> Vec<String> {
    let is_fine = |line: &&Line| match line {
        Line::Tried { status, .. } | Line::NotListed { status, .. } | Line::Moved { status, .. } => {
            status.is_none_or(|status| matches!(status, 200..300 | 408 | 503))
        }
        // 404: the item may have been deleted.
        Line::Changed { status, change, at, .. } => status.is_none_or(|status| {
            matches!(status, 200..300 | 404 | 408 | 503) || status == 400 && change.may_be_refused(*at)
        }),
        Line::Confirmed { .. } | Line::Listed { .. } => true,
    };
    record.journal.iter().filter(|line| !is_fine(line)).map(|line| format!("{line:?}")).collect()
}
