//! Comparison of the answers that users got to their changes with the lists that they saw later.

use std::collections::BTreeMap;

use crate::check::model::{Fact, Inbox};
use crate::journal::Line;
use crate::record::Record;
use crate::workload::identifier;

/// Replays the journal. Returns the inboxes of all users, and the contradictions between answers and lists.
fn replay(record: &Record) -> (BTreeMap<usize, Inbox>, Vec<String>) {
    let (mut inboxes, mut wrong) = (BTreeMap::<usize, Inbox>::new(), Vec::new());
    for line in &record.journal {
        match line {
            Line::Changed { user, change, status, at } => {
                let refused = inboxes.entry(*user).or_default().change(change, *status, *at);
                wrong.extend(refused.map(|text| format!("user {user} at {at}: {text}")));
            }
            Line::Listed { user, page, at } => {
                let denied = inboxes.entry(*user).or_default().list(page);
                wrong.extend(denied.into_iter().map(|text| format!("user {user} at {at}: {text}")));
            }
            Line::Tried { .. } | Line::Confirmed { .. } | Line::NotListed { .. } | Line::Moved { .. } => {}
        }
    }
    (inboxes, wrong)
}

pub(crate) fn no_list_contradicts_a_response(record: &Record) -> Vec<String> {
    replay(record).1
}

/// At the end, the tables contain every accepted change, including those answered with 202 because they were not visible yet.
pub(crate) fn every_accepted_change_was_made(record: &Record) -> Vec<String> {
    let (inboxes, _) = replay(record);
    let mut wrong = Vec::new();
    for (user, inbox) in inboxes {
        for (id, known) in &inbox.items {
            let Some(item) = record.tables.items.get(id) else {
                wrong.push(format!("user {user}: item {id} was listed, but is not in the tables: {known:?}"));
                continue;
            };
            let owner = record.tables.users.get(&item.user);
            let is_foreign = owner.is_none_or(|(_, name)| *name != identifier(user));
            let is_deleted = item.deleted_at.is_some();
            let differs = known.seen.excludes(&item.seen_at.is_some())
                || known.read.excludes(&item.clicked_at.is_some())
                || known.state.excludes(&item.state)
                || known.archived.excludes(&item.archived_at.is_some());
            let was_deleted = is_deleted && known.deleted != Fact::Is(false);
            if is_foreign || known.deleted.excludes(&is_deleted) || (differs && !was_deleted) {
                wrong.push(format!("user {user}: expected {known:?}, the tables hold {item:?}"));
            }
        }
    }
    wrong
}
