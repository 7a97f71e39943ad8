//! Two releases side by side. The tests have only this release, so they simulate the next one: by a newer schema, by messages
//! that this release cannot read, and by a consumer that reads them.

use std::time::Duration;

use domain::content::InAppContent;
use domain::event::{DeliverySettled, ItemsAdded};
use domain::{Channel, DeliveryId, Envelope, Event, Lane, SendId, Status, StreamName, UserNumber};
use event_log::ConsumerSettings;
use serde_json::json;
use service_kit::clock;
use store::inbox::projection::INBOX;
use store::webhooks::WEBHOOKS;
use suite::retrying_client::{Call, RetryingClient};
use suite::{Environment, Person};
use testkit::{Database, eventually};
use uuid::Uuid;

use crate::golden::installation::{EVENTS_BEFORE, GoldenInstallation};
use crate::system::System;

const SOON: Duration = Duration::from_secs(60);
const JOB: &[u8] = include_bytes!("../../libs/domain/golden/DeliveryJob.v1.json");
const LANE: Lane = Lane::Transactional;
/// A migration of the next release, which only adds to the schema.
const AHEAD: &str = "
    ALTER TABLE request ADD COLUMN of_the_future text NOT NULL DEFAULT 'unknown';
    ALTER TABLE inbox_item ADD COLUMN of_the_future jsonb;
    CREATE TABLE of_the_future (id bigint PRIMARY KEY);
    INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
      VALUES (9999, 'of the future', true, '', 0);";

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_schema_keeps_services_running_and_is_not_downgraded() {
    let mut system = System::start().await;
    let client = RetryingClient::new(&system.origins(), &system.app);
    let user = Person(1).user();
    let create =
        Call { method: "POST", path: "/v3/users", user: None, idempotency_key: None, body: Some(&user) };
    assert_eq!(client.call(0, create).await.0, 200);
    sqlx::raw_sql(AHEAD).execute(&system.database).await.unwrap();
    let content = json!({
        "notification": {"title": "Shipped"}, "sendTo": {"recipients": [Person(1).identifier()]},
    });
    let send = Call {
        method: "POST",
        path: "/v3/notifications",
        user: None,
        idempotency_key: None,
        body: Some(&content),
    };
    assert_eq!(client.call(0, send).await.0, 202);
    let database = system.database.clone();
    let delivered = async |count: i64| {
        eventually(SOON, "every message is delivered", async || {
            let done: (i64, i64) = sqlx::query_as(
                "SELECT (SELECT count(*) FROM inbox_item), (SELECT count(*) FROM delivery WHERE status = 'sent')",
            )
            .fetch_one(&database)
            .await
            .unwrap();
            // An email, an SMS, and one message to each of two phones.
            (done == (count, 4 * count)).then_some(())
        })
        .await;
    };
    delivered(1).await;
    // Processes of this release can be restarted on the newer schema.
    let own = system.client.clone();
    for process in system.processes.iter_mut().step_by(2) {
        process.restart_orderly(&own).await;
    }
    assert_eq!(client.call(1, send).await.0, 202);
    delivered(2).await;
    system.assert_running();

    let refused = system.environment.run("tidings", &["migrate"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(
        said.contains("newer release") && said.contains("9999") && said.contains("Nothing was changed"),
        "{said}"
    );
}

#[tokio::test]
async fn a_process_with_another_number_of_partitions_or_another_log_does_not_start() {
    let (installation, another) =
        (GoldenInstallation::with_partitions(1).await, GoldenInstallation::with_partitions(1).await);
    let (servers, other) = (&installation.servers, Database::create().await);
    let (database, nats) = (servers.database_url(), servers.nats.url());
    let other_nats = another.servers.nats.url();
    let start = |database: &str, nats: &str, partitions: &str| {
        let environment = Environment::default().with(servers.environment()).with([
            ("TIDINGS_DATABASE__URL", database),
            ("TIDINGS_NATS__URL", nats),
            ("TIDINGS_STREAMS__PARTITIONS", partitions),
        ]);
        let ended = environment.run("tidings-dispatcher", &[]);
        (ended.status.code(), String::from_utf8_lossy(&ended.stderr).into_owned())
    };
    for (started, because) in [
        (start(database, nats, "3"), "1 inbox partitions"),
        (start(database, other_nats, "1"), "not the one that this database belongs to"),
        (start(other.url(), nats, "1"), "tidings migrate"),
    ] {
        assert_eq!(started.0, Some(1), "{}", started.1);
        assert!(started.1.contains(because), "{because}: {}", started.1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_a_newer_release_wait_without_delaying_others() {
    let installation = GoldenInstallation::with_partitions(2).await;
    let [held, free] = [0, 1].map(StreamName::Inbox);
    let [of_held, of_free] = [0, 1].map(|number| user_of(number, 2));
    installation.serve();
    for stream in [held, StreamName::Outcome, StreamName::Job(Channel::Email, LANE)] {
        installation.publish(stream, newer(&message(stream, of_held))).await;
    }
    for (stream, user) in [(held, of_held), (free, of_free), (StreamName::Outcome, of_held)] {
        installation.publish(stream, message(stream, user).encode().unwrap()).await;
    }
    let checkpoint = async |projection, stream| {
        installation.context.store.database().checkpoint(projection, stream).await.unwrap()
    };
    let reached = async |projection, stream, seq| {
        eventually(SOON, &format!("{projection} of {stream} is at {seq}"), async || {
            (checkpoint(projection, stream).await == seq).then_some(())
        })
        .await;
    };
    reached(INBOX, free, 2).await;
    reached(WEBHOOKS, free, 2).await;
    let before = EVENTS_BEFORE;
    reached(INBOX, held, before).await;
    reached(WEBHOOKS, held, before).await;
    reached(WEBHOOKS, StreamName::Outcome, 1).await;
    let items = "SELECT count(*) FROM inbox_item";
    assert_eq!(installation.count(items).await, 1);

    // Do what a newer release does: process the messages that this release cannot read. This release must then continue
    // with the messages after them.
    let store = &installation.context.store;
    let items_batch = store.inbox().project(held, before, before + 1).await.unwrap();
    items_batch.expect("the event waits").commit().await.unwrap();
    for (stream, seq) in [(held, before), (StreamName::Outcome, 1)] {
        let webhooks_batch = store.webhooks().webhook_batch(stream, seq, seq + 1).await.unwrap();
        webhooks_batch.expect("the event waits").commit().await.unwrap();
    }
    let settings =
        ConsumerSettings { ack_wait: installation.context.config.delivery.ack_wait, max_ack_pending: 8_192 };
    let jobs = StreamName::Job(Channel::Email, LANE);
    let consumer = installation.context.log.consumer(jobs, "email", settings).await.unwrap();
    let job = eventually(SOON, "the newer worker receives its job", async || {
        consumer.fetch(1, Duration::from_secs(2)).await.unwrap().pop()
    })
    .await;
    job.ack().await.unwrap();
    reached(INBOX, held, before + 2).await;
    reached(WEBHOOKS, held, before + 2).await;
    reached(WEBHOOKS, StreamName::Outcome, 3).await;
    assert_eq!(installation.count(items).await, 2);
    assert_eq!(installation.count("SELECT count(*) FROM dead_event").await, 0);
    assert_eq!(installation.count("SELECT count(*) FROM parked").await, 0);
    assert!(!installation.context.tasks.token().is_cancelled(), "no service has stopped");
}

/// Finds a user number that belongs to the partition.
fn user_of(partition: u32, partitions: u32) -> UserNumber {
    let owned = |user: &UserNumber| domain::id::partition(domain::AppId(7), *user, partitions) == partition;
    (1..).map(UserNumber).find(owned).unwrap()
}

/// Creates a message for the stream.
fn message(stream: StreamName, user: UserNumber) -> Envelope {
    let content = InAppContent { title: Some("Shipped".to_owned()), ..InAppContent::default() };
    let event = match stream {
        StreamName::Inbox(_) => Event::InboxItemsAdded(ItemsAdded {
            created_at: clock::now(),
            category_id: None,
            first: 0,
            contents: vec![content],
            recipients: vec![(user, 0)],
        }),
        StreamName::Outcome => Event::DeliverySettled(DeliverySettled {
            delivery_id: DeliveryId(Uuid::from_u128(1)),
            channel: Channel::Email,
            user,
            attempt: 1,
            status: Status::Sent,
            reason: None,
            provider: None,
        }),
        _ => return Envelope::decode(JOB).unwrap(),
    };
    let send_id = Some(SendId(clock::new_id()));
    let (id, app, at) = (clock::new_id(), domain::AppId(7), clock::now());
    Envelope { id, app, at, send_id, caused_by: None, trace: None, event }
}

/// Encodes the message as a later release could: outcomes with a new reason, other messages in a new version.
fn newer(message: &Envelope) -> Vec<u8> {
    let mut wire: serde_json::Value = serde_json::from_slice(&message.encode().unwrap()).unwrap();
    if let Event::DeliverySettled(_) = message.event {
        wire["data"]["reason"] = json!("of_the_future");
    } else {
        wire["v"] = json!(3);
        wire["data"] = json!({"of": "the future"});
    }
    serde_json::to_vec(&wire).unwrap()
}
