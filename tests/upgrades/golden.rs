//! Every message of `libs/domain/golden` is published unchanged to its stream, in a separate installation, and the real services
//! process it. The services must write the rows that the file with the same name in `rows` lists.
//!
//! `TIDINGS_TEST_WRITE_ROWS=1` writes missing files. It never changes existing files.

pub(crate) mod installation;
mod rows;

use std::path::{Path, PathBuf};

use domain::event::bundle;
use domain::{Channel, Event, Lane, StreamName};
use futures_util::StreamExt;
use serde_json::{Value, json};

use installation::GoldenInstallation;

/// Number of concurrent installations.
const AT_ONCE: usize = 2;
const WRITE: &str = "TIDINGS_TEST_WRITE_ROWS";

fn folder(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn names(path: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder(path)).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn every_golden_message_produces_the_same_rows() {
    all_produce_their_rows(|message| message).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_members_of_a_newer_release_change_nothing() {
    all_produce_their_rows(|message| {
        let mut message: Value = serde_json::from_slice(&message).unwrap();
        for within in ["/data", "/data/content/email", "/data/contents/0", "/data/recipients/1", ""] {
            if let Some(object) = message.pointer_mut(within).and_then(Value::as_object_mut) {
                object.insert("fromTheFuture".to_owned(), json!({"is": [1, null]}));
            }
        }
        serde_json::to_vec(&message).unwrap()
    })
    .await;
}

async fn all_produce_their_rows(change: impl Fn(Vec<u8>) -> Vec<u8> + Copy) {
    let names = names("../libs/domain/golden");
    let replays = names.iter().map(async |name| (name, replay(name, change).await));
    let replayed: Vec<_> = futures_util::stream::iter(replays).buffered(AT_ONCE).collect().await;
    let differing: Vec<_> = replayed.into_iter().filter_map(|(name, rows)| difference(name, &rows)).collect();
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

#[test]
fn all_expected_rows_are_those_of_a_golden_message() {
    assert_eq!(names("upgrades/rows"), names("../libs/domain/golden"));
}

/// Processes a message, and returns the rows that it produces.
async fn replay(name: &str, change: impl Fn(Vec<u8>) -> Vec<u8>) -> Value {
    let message = std::fs::read(folder("../libs/domain/golden").join(name)).unwrap();
    let events = bundle::decode(&message.clone().into()).unwrap();
    let events: Vec<Event> = events.into_iter().map(|part| part.envelope.event).collect();
    let installation = GoldenInstallation::start(&events).await;
    installation.publish(home(&events[0]), change(message)).await;
    installation.serve();
    installation.quiet().await;
    let rows = rows::all(&installation.pool, &installation.outbox).await;
    // This waits until PostgreSQL has dropped the database. Other replays must not wait, because their connections would time out.
    tokio::task::spawn_blocking(move || drop(installation)).await.unwrap();
    rows
}

/// Stream for messages of this type.
fn home(event: &Event) -> StreamName {
    match event {
        Event::SendAccepted(_) | Event::SendContinues(_) => StreamName::Send(Lane::Transactional),
        Event::DeliveryJob(_) => StreamName::Job(Channel::Email, Lane::Transactional),
        Event::ChunkPlanned(_)
        | Event::DeliverySettled(_)
        | Event::RequestCancelled(_)
        | Event::TargetSuppressed(_) => StreamName::Outcome,
        Event::InboxItemsAdded(_)
        | Event::InboxItemsChanged(..)
        | Event::InboxItemStateSet(_)
        | Event::InboxItemsSnoozed(_)
        | Event::InboxSnoozesEnded(_)
        | Event::InboxAllChanged(..)
        | Event::UserErased(_) => StreamName::Inbox(0),
    }
}

fn difference(name: &str, rows: &Value) -> Option<String> {
    let path = folder("upgrades/rows").join(name);
    let text = serde_json::to_string_pretty(rows).unwrap() + "\n";
    if !path.exists() {
        if std::env::var_os(WRITE).is_some() {
            std::fs::write(&path, text).unwrap();
            return None;
        }
        return Some(format!(
            "{name} has no file with expected rows; {WRITE}=1 writes it with these: {text}"
        ));
    }
    let mut expected: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let mut found = rows.clone();
    [&mut expected, &mut found].into_iter().for_each(shorten_delivery_ids);
    (expected != found).then(|| format!("{name} produces other rows than expected: {text}"))
}

/// Keeps only the second half of each delivery id. Since release 0.4, the first half is that of the send's id.
fn shorten_delivery_ids(rows: &mut Value) {
    match rows {
        Value::Object(members) => {
            let is_delivery = members.contains_key("recipient_index") && members.contains_key("target");
            for (name, value) in members {
                match value {
                    Value::String(id)
                        if name == "delivery_id" || name == "deliveryId" || is_delivery && name == "id" =>
                    {
                        *id = id.split_off(19);
                    }
                    other => shorten_delivery_ids(other),
                }
            }
        }
        Value::Array(rows) => rows.iter_mut().for_each(shorten_delivery_ids),
        _ => {}
    }
}
