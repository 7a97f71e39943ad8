//! Inbox events, and the rows that they produce.

use std::sync::Arc;

use domain::content::InAppContent;
use domain::id::partition;
use domain::{AppId, Envelope, Event, ItemId, StreamName, UserNumber};
use event_log::{EventLog, Message};
use serde_json::json;
use store::inbox::projection::NewItem;

use crate::installation::PARTITIONS;

/// Number of users per partition. Each inbox gets several items in one measurement.
const USERS: usize = 5_000;
/// Maximum number of messages in one call to the log.
const CHUNK: usize = 2_000;

/// The rows of the published events.
pub(crate) struct PublishedRows {
    /// The rows of each partition, in the order of their events.
    pub(crate) rows: Vec<Vec<NewItem>>,
}

/// Users with an inbox, by partition.
pub(crate) struct Users(Vec<Vec<UserNumber>>);

impl Users {
    pub(crate) fn of(app: AppId) -> Users {
        let mut users = vec![Vec::new(); PARTITIONS as usize];
        let mut number = 0;
        while users.iter().any(|users| users.len() < USERS) {
            number += 1;
            let user = UserNumber(number);
            let home = &mut users[partition(app, user, PARTITIONS) as usize];
            if home.len() < USERS {
                home.push(user);
            }
        }
        Users(users)
    }
}

/// Publishes events to every partition. Each event has `recipients` recipients; all events together produce `items` rows.
pub(crate) async fn publish(
    log: &EventLog,
    app: AppId,
    users: &Users,
    items: usize,
    recipients: usize,
) -> PublishedRows {
    let events = items / recipients / PARTITIONS as usize;
    let mut rows = Vec::new();
    for (number, users) in (0..PARTITIONS).zip(&users.0) {
        let mut of_partition = Vec::with_capacity(events * recipients);
        let indexes: Vec<usize> = (0..events).collect();
        for chunk in indexes.chunks(CHUNK) {
            let added: Vec<Envelope> =
                chunk.iter().map(|&index| event(app, users, index * recipients, recipients)).collect();
            let stream = StreamName::Inbox(number);
            let messages = added
                .iter()
                .map(|event| Message { stream, id: None, payload: event.encode().unwrap().into() })
                .collect();
            for (event, appended) in added.iter().zip(log.publish_all(messages).await) {
                of_partition.extend(rows_of(event, appended.unwrap().seq, number));
            }
        }
        rows.push(of_partition);
    }
    PublishedRows { rows }
}

fn event(app: AppId, users: &[UserNumber], first: usize, recipients: usize) -> Envelope {
    let content = InAppContent {
        title: Some("Your order is on its way".to_owned()),
        message: Some("Order 4711 left our house this morning and arrives tomorrow before noon.".to_owned()),
        url: Some("https://shop.example.com/orders/4711".to_owned()),
        data: json!({"order": 4711, "carrier": "Post"}).as_object().unwrap().clone(),
        ..InAppContent::default()
    };
    // The stride spreads consecutive rows over the table.
    let user = |index| users[(index * 7_919) % users.len()];
    let recipients = (first..first + recipients).map(|index| (user(index), 0)).collect();
    suite::items_added(app, vec![content], recipients)
}

fn rows_of(envelope: &Envelope, seq: u64, partition: u32) -> Vec<NewItem> {
    let Event::InboxItemsAdded(added) = &envelope.event else {
        panic!("the event adds no items");
    };
    let content: Arc<str> = serde_json::to_string(&added.contents[0]).unwrap().into();
    let row = |(index, &(user, _)): (u32, &(UserNumber, u32))| NewItem {
        app: envelope.app,
        user,
        id: ItemId::derive(seq, partition, PARTITIONS, index).unwrap(),
        send_id: envelope.send_id.unwrap(),
        category: None,
        created_at: added.created_at,
        content: Arc::clone(&content),
        event_id: envelope.id,
    };
    (added.first..).zip(&added.recipients).map(row).collect()
}
