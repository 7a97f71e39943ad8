//! Content of the inboxes.

use std::collections::{BTreeMap, BTreeSet};

use domain::Channel;

use crate::journal::{Change, Line};
use crate::record::{Counters, Item, Record};

/// Every user sees every item of their inbox exactly once, except deleted and archived items.
pub(crate) fn every_inbox_has_its_items_once(record: &Record) -> Vec<String> {
    let (numbers, asked) = (record.numbers(), record.by_title());
    let mut expected: BTreeMap<i64, BTreeSet<&str>> = BTreeMap::new();
    let planned = record.tables.requests.values().filter_map(|request| asked.get(request.title.as_str()));
    for asked in planned.filter(|asked| asked.channels.contains(&Channel::InApp)) {
        let users = asked.recipients.iter().map(|name| (asked.app, name.clone()));
        for number in users.filter_map(|user| numbers.get(&user)) {
            expected.entry(*number).or_default().insert(&asked.title);
        }
    }
    let mut wrong = Vec::new();
    let mut sent = BTreeSet::new();
    for (id, item) in &record.tables.items {
        if !sent.insert((item.user, item.send)) {
            wrong.push(format!("item {id} is the second one of its send in the inbox: {item:?}"));
        }
        if item.deleted_at.is_some() || item.archived_at.is_some() {
            let request = record.tables.requests.get(&item.send);
            let title = request.map_or("", |request| request.title.as_str());
            expected.entry(item.user).or_default().remove(title);
        }
    }
    wrong.extend(unasked(record));
    for (user, shown) in &record.inboxes {
        let mut left = numbers.get(user).and_then(|number| expected.remove(number)).unwrap_or_default();
        for item in shown {
            if !left.remove(item.title.as_str()) {
                wrong.push(format!("{user:?} sees {:?} twice, or should not see it", item.title));
            }
        }
        wrong.extend(left.into_iter().map(|title| format!("{user:?} does not see {title:?}")));
    }
    wrong
}

/// Items that are deleted or archived although their users did not ask for it.
fn unasked(record: &Record) -> Vec<String> {
    let (mut single, mut whole, mut archived) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for line in &record.journal {
        match line {
            Line::Changed { change: Change::Deleted(id), .. } => drop(single.insert(*id)),
            Line::Changed { change: Change::Archived(id), .. } => drop(archived.insert(*id)),
            Line::Changed { change: Change::AllDeleted, user, .. } => drop(whole.insert(user)),
            _ => {}
        }
    }
    let whole: BTreeSet<String> = whole.into_iter().map(|user| crate::workload::identifier(*user)).collect();
    let is_unasked = |id: i64, item: &Item| {
        let by_all = record.tables.users.get(&item.user).is_some_and(|(_, name)| whole.contains(name));
        item.deleted_at.is_some() && !single.contains(&id) && !by_all
            || item.archived_at.is_some() && !archived.contains(&id)
    };
    let unasked = record.tables.items.iter().filter(|(id, item)| is_unasked(**id, item));
    unasked.map(|(id, item)| format!("not deleted or archived by its user: item {id}: {item:?}")).collect()
}

pub(crate) fn every_counter_is_right(record: &Record) -> Vec<String> {
    let mut counted: BTreeMap<(i64, i64), Counters> = BTreeMap::new();
    let is_listed = |item: &&Item| {
        item.deleted_at.is_none() && item.archived_at.is_none() && item.snoozed_until.is_none()
    };
    for item in record.tables.items.values().filter(is_listed) {
        let counters = counted.entry((item.app, item.user)).or_default();
        counters.total += 1;
        counters.unread += i64::from(item.clicked_at.is_none());
        counters.unseen += i64::from(item.seen_at.is_none());
    }
    let kept = &record.tables.counters;
    let users: BTreeSet<_> = kept.keys().chain(counted.keys()).collect();
    let pair = |user| {
        let of = |counters: &BTreeMap<_, Counters>| counters.get(user).copied().unwrap_or_default();
        (of(kept), of(&counted))
    };
    let differing =
        users.into_iter().map(|user| (user, pair(user))).filter(|(_, (kept, found))| kept != found);
    differing.map(|(user, (kept, found))| format!("{user:?}: stored {kept:?}, counted {found:?}")).collect()
}

/// Compares the rows of items with the items of a replay of the log.
pub(crate) fn the_log_gives_the_same_inboxes(record: &Record) -> Vec<String> {
    let (live, replayed) = (&record.tables.items, &record.log.items);
    let ids: BTreeSet<&i64> = live.keys().chain(replayed.keys()).collect();
    let differing = ids.into_iter().filter(|id| live.get(id) != replayed.get(id));
    differing
        .map(|id| {
            format!("item {id}: the table holds {:?}, the log gives {:?}", live.get(id), replayed.get(id))
        })
        .collect()
}

/// Compares the inboxes with the log as operators do, by `tidings verify`.
pub(crate) fn tidings_verify_finds_them_equal(record: &Record) -> Vec<String> {
    let is_equal = record.verified["equal"] == true;
    if is_equal { Vec::new() } else { vec![record.verified.to_string()] }
}
