use domain::StreamName;
use local_servers::NatsServer;
use service_kit::{Config, Context, connections, installation};
use store::database::installation::RecordedDatabase;
use store::inbox::projection::INBOX;
use testkit::Database;

use crate::connect::{Installation, LIMIT};

impl Installation {
    async fn prepare(&self, partitions: u32) -> Result<(), String> {
        let store = connections::store(&self.config, LIMIT).await.unwrap();
        let log = connections::event_log(&self.config, LIMIT).await.unwrap();
        let prepared = installation::prepare(&store, &log, partitions).await;
        prepared.map_err(|error| format!("{error:#}"))
    }

    async fn verify(&self) -> Result<u32, String> {
        let store = connections::store(&self.config, LIMIT).await.unwrap();
        let log = connections::event_log(&self.config, LIMIT).await.unwrap();
        installation::verify(&store, &log).await.map_err(|error| format!("{error:#}"))
    }
}

#[tokio::test]
async fn preparing_twice_changes_nothing() {
    let installation = Installation::start().await;
    let partitions = installation.config.streams.partitions;
    let (one, other) = tokio::join!(installation.prepare(partitions), installation.prepare(partitions));
    assert_eq!((one, other), (Ok(()), Ok(())));
    assert_eq!(installation.verify().await, Ok(partitions));
}

#[tokio::test]
async fn services_accept_streams_of_another_size_and_only_resize_changes_them() {
    let mut installation = Installation::start().await;
    let before = installation.config.nats.max_messages;
    let resize = async |config: &Config| {
        let store = connections::store(config, LIMIT).await.unwrap();
        let log = connections::event_log(config, LIMIT).await.unwrap();
        installation::resize(&store, &log, 4, &config.nats).await.unwrap()
    };
    installation.config.nats.max_messages = before * 2;
    assert_eq!(installation.prepare(4).await, Ok(()));
    assert_eq!(resize(&installation.config).await, [], "the configuration does not set a size");
    assert_eq!(installation.verify().await, Ok(4));

    installation.config.nats.max_messages_are_set = true;
    let resized = resize(&installation.config).await;
    assert_eq!(resized.len(), StreamName::all(4).len());
    assert!(resized.iter().all(|stream| stream.max_messages == (before, before * 2)), "{resized:?}");
    assert_eq!(installation.verify().await, Ok(4));
    // A process with the old configuration still starts.
    installation.config.nats.max_messages = before;
    assert_eq!(installation.verify().await, Ok(4));
    Context::connect(installation.config.clone()).await.unwrap();
}

#[tokio::test]
async fn another_number_of_partitions_is_refused() {
    let installation = Installation::start().await;
    let partitions = installation.config.streams.partitions;
    let refused = installation.prepare(partitions + 1).await.unwrap_err();
    assert!(refused.contains(&format!("streams.partitions = {partitions}")), "{refused}");
    assert_eq!(installation.verify().await, Ok(partitions));
}

#[tokio::test]
async fn missing_streams_are_refused_and_not_created_again() {
    let mut installation = Installation::start().await;
    let empty = NatsServer::start().await.unwrap();
    installation.config.nats.url = Some(empty.url().parse().unwrap());
    for refused in [installation.prepare(4).await.unwrap_err(), installation.verify().await.unwrap_err()] {
        assert!(refused.contains("SEND_transactional") && refused.contains("missing"), "{refused}");
    }
    let log = connections::event_log(&installation.config, LIMIT).await.unwrap();
    for stream in StreamName::all(4) {
        assert!(log.state(stream).await.is_err(), "{stream} was created");
    }
}

#[tokio::test]
async fn other_streams_of_the_same_names_are_refused() {
    let (mut one, other) = (Installation::start().await, Installation::start().await);
    one.config.nats.url = other.config.nats.url.clone();
    for refused in [one.prepare(4).await.unwrap_err(), one.verify().await.unwrap_err()] {
        assert!(refused.contains("not the one that this database belongs to"), "{refused}");
    }
    assert_eq!(other.verify().await, Ok(4));
}

#[tokio::test]
async fn a_log_in_use_is_refused_to_a_new_database() {
    let mut installation = Installation::start().await;
    let log = connections::event_log(&installation.config, LIMIT).await.unwrap();
    let message = event_log::Message { stream: StreamName::Inbox(0), id: None, payload: "event".into() };
    log.publish(message).await.unwrap();
    let database = Database::create().await;
    installation.config.database.url = Some(database.url().parse().unwrap());
    connections::store(&installation.config, LIMIT).await.unwrap().migrate().await.unwrap();
    let refused = installation.prepare(4).await.unwrap_err();
    assert!(refused.contains("INBOX_0") && refused.contains("another database"), "{refused}");
    assert!(installation.prepare(4).await.is_err(), "the refused call recorded nothing");
}

#[tokio::test]
async fn a_log_that_ends_below_a_checkpoint_is_refused() {
    let installation = Installation::start().await;
    let store = connections::store(&installation.config, LIMIT).await.unwrap();
    store.inbox().project(StreamName::Inbox(2), 0, 7).await.unwrap().unwrap().commit().await.unwrap();
    assert_eq!(store.database().checkpoint(INBOX, StreamName::Inbox(2)).await.unwrap(), 7);
    for refused in [installation.prepare(4).await.unwrap_err(), installation.verify().await.unwrap_err()] {
        assert!(refused.contains("INBOX_2 ends at 0") && refused.contains("up to 7"), "{refused}");
    }
}

#[tokio::test]
async fn a_log_that_ends_below_a_checkpoint_of_webhooks_is_refused() {
    let installation = Installation::start().await;
    let store = connections::store(&installation.config, LIMIT).await.unwrap();
    store.webhooks().webhook_batch(StreamName::Outcome, 0, 7).await.unwrap().unwrap().commit().await.unwrap();
    let refused = installation.verify().await.unwrap_err();
    assert!(refused.contains("OUTCOME ends at 0") && refused.contains("up to 7"), "{refused}");
}

#[tokio::test]
async fn a_restored_database_is_refused_until_the_log_was_read() {
    let installation = Installation::start().await;
    let store = connections::store(&installation.config, LIMIT).await.unwrap();
    assert_eq!(store.database().recorded_database().await.unwrap(), RecordedDatabase::Here);
    let restore = store.recovery().begin_restore().await.unwrap().expect("no other restore runs");
    assert_eq!(store.database().recorded_database().await.unwrap(), RecordedDatabase::HalfRestored);
    for refused in [installation.prepare(4).await.unwrap_err(), installation.verify().await.unwrap_err()] {
        assert!(
            refused.contains("restored from a backup") && refused.contains("`tidings restore`"),
            "{refused}"
        );
    }
    restore.finish().await.unwrap();
    assert_eq!(installation.verify().await, Ok(4));
}

#[tokio::test]
async fn preparing_records_the_database_of_an_earlier_installation() {
    let installation = Installation::start().await;
    let store = connections::store(&installation.config, LIMIT).await.unwrap();
    let pool =
        sqlx::PgPool::connect(installation.config.database.url.as_ref().unwrap().expose()).await.unwrap();
    let of_before = ["system_identifier = NULL, database_oid = NULL, table_oid = NULL", "table_oid = NULL"];
    for forgotten in of_before {
        let forget = sqlx::AssertSqlSafe(format!("UPDATE installation SET {forgotten}"));
        sqlx::query(forget).execute(&pool).await.unwrap();
        let refused = installation.verify().await.unwrap_err();
        assert!(refused.contains("`tidings migrate`"), "{refused}");
        assert_eq!(installation.prepare(4).await, Ok(()));
        assert_eq!(store.database().recorded_database().await.unwrap(), RecordedDatabase::Here);
        assert_eq!(installation.verify().await, Ok(4));
    }
}

#[tokio::test]
async fn an_unavailable_database_is_not_reported_as_one_without_tables() {
    let installation = Installation::start().await;
    let store = connections::store(&installation.config, LIMIT).await.unwrap();
    let log = connections::event_log(&installation.config, LIMIT).await.unwrap();
    store.close().await;
    let away = installation::verify(&store, &log).await.unwrap_err();
    assert!(!format!("{away:#}").contains("tidings migrate"), "{away:#}");
}
