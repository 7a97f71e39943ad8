//! Reports of the API about sends.

use std::collections::{BTreeMap, BTreeSet};

use domain::{Channel, Reason, Status};
use uuid::Uuid;

use crate::record::Record;

/// Recipient, channel and status.
type Row = (String, String, String);

/// The API reports every send as completed, and reports for each recipient and channel the status that the tables have.
pub(crate) fn every_send_is_reported(record: &Record) -> Vec<String> {
    let (confirmed, mut rows, mut wrong) = (record.confirmed_sends(), rows(record), Vec::new());
    for (request, reported) in &record.reported {
        let Some(asked) = confirmed.get(request) else { continue };
        if reported.status != "completed" {
            wrong.push(format!("{request} ({}) is {:?}", asked.title, reported.status));
        }
        let mut shown = reported.deliveries.clone();
        let mut known = rows.remove(request).unwrap_or_default();
        shown.sort_unstable();
        known.sort_unstable();
        if shown != known {
            wrong.push(format!(
                "{request} ({}): the API reports {shown:?}, the tables hold {known:?}",
                asked.title
            ));
        }
        let named: BTreeSet<_> = shown.iter().map(|(whom, over, _)| (whom.as_str(), over.as_str())).collect();
        for recipient in &asked.recipients {
            let unnamed =
                asked.channels.iter().filter(|channel| !named.contains(&(recipient, channel.as_str())));
            wrong.extend(unnamed.map(|channel| {
                format!("{request}: the API reports nothing about {recipient} over {channel}")
            }));
        }
    }
    wrong
}

/// Status of every recipient and channel according to the tables, by send.
fn rows(record: &Record) -> BTreeMap<Uuid, Vec<Row>> {
    let numbers = record.numbers();
    let shown: BTreeSet<(Uuid, i64)> =
        record.tables.items.values().map(|item| (item.send, item.user)).collect();
    let mut rows: BTreeMap<Uuid, Vec<Row>> = BTreeMap::new();
    let mut add = |send: Uuid, name: &str, channel: &str, status: Status| {
        let row = (name.to_owned(), channel.to_owned(), status.to_string());
        rows.entry(send).or_default().push(row);
    };
    for (id, request) in &record.tables.requests {
        for (name, planned) in &request.recipients {
            if planned.in_app {
                let number = numbers.get(&(request.app, name.clone()));
                let is_shown = number.is_some_and(|number| shown.contains(&(*id, *number)));
                let status = if is_shown { Status::Delivered } else { Status::Queued };
                add(*id, name, Channel::InApp.as_str(), status);
            }
            for (channel, reason) in &planned.skips {
                let status = reason.parse().map_or(Status::Skipped, Reason::planned_status);
                add(*id, name, channel, status);
            }
        }
    }
    for delivery in record.tables.deliveries.values() {
        let request = record.tables.requests.get(&delivery.send);
        let mut recipients = request.into_iter().flat_map(|request| &request.recipients);
        if let Some((name, _)) = recipients.find(|(_, planned)| planned.index == delivery.index) {
            add(delivery.send, name, delivery.channel.as_str(), delivery.status);
        }
    }
    rows
}
