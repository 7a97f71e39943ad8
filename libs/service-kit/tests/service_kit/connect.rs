use std::time::Duration;

use credentials::{MasterKey, link};
use domain::{Actor, Lane, StreamName};
use event_log::{ConsumerSettings, Message};
use local_servers::{NatsServer, Postgres};
use service_kit::{Config, Context, connections};
use sqlx::Connection;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use store::control::app::{NewApp, NewSecret};
use testkit::Servers;

pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Private servers with schema and streams, and a configuration that names them.
pub(crate) struct Installation {
    pub(crate) config: Config,
    pub(crate) servers: Servers,
}

impl Installation {
    pub(crate) async fn start() -> Self {
        let servers = Servers::start().await;
        let mut config = servers.config();
        config.streams.partitions = 4;
        servers.prepare(&config).await;
        Installation { config, servers }
    }
}

#[tokio::test]
async fn a_context_connects_to_both_servers() {
    let installation = Installation::start().await;
    let context = Context::connect(installation.config.clone()).await.unwrap();
    context.store.ping().await.unwrap();
    context.log.ping().await.unwrap();
    assert!(context.readiness.check().await.ready);
}

#[tokio::test]
async fn connecting_waits_for_a_server_that_starts_later() {
    let mut installation = Installation::start().await;
    installation.servers.nats.kill();
    let config = installation.config.clone();
    let connecting = tokio::spawn(async move { connections::event_log(&config, LIMIT).await });
    assert!(
        connections::event_log(&installation.config, Duration::ZERO).await.is_err(),
        "no server is running"
    );
    installation.servers.nats.restart().await.unwrap();
    connecting.await.unwrap().unwrap().ping().await.unwrap();
}

#[tokio::test]
async fn an_unreachable_server_is_named_without_credentials() {
    let port = local_servers::port::free().unwrap();
    let mut config = Config::default();
    config.database.url = Some(format!("postgres://someone:hunter2@127.0.0.1:{port}/t").parse().unwrap());
    config.nats.url = Some(format!("nats://someone:hunter2@127.0.0.1:{port}").parse().unwrap());
    let limit = Duration::from_millis(50);
    let database = format!("{:#}", connections::store(&config, limit).await.unwrap_err());
    let log = format!("{:#}", connections::event_log(&config, limit).await.err().unwrap());
    for (server, message) in [("PostgreSQL", database), ("NATS", log)] {
        assert!(message.contains(&format!("{server} at 127.0.0.1:{port}")), "{message}");
        assert!(!message.contains("hunter2") && !message.contains("someone"), "{message}");
    }
}

#[tokio::test]
async fn a_wrong_password_ends_the_wait_at_once() {
    let installation = Installation::start().await;
    let mut config = installation.config.clone();
    let files = tempfile::tempdir().unwrap();
    let guarded = NatsServer::start_in(files.path()).await.unwrap();
    let mut url: url::Url = config.database.url.as_ref().unwrap().expose().parse().unwrap();
    url.set_password(Some("hunter2")).unwrap();
    config.database.url = Some(url.as_str().parse().unwrap());
    config.nats.url = Some(format!("nats://tidings:hunter2@127.0.0.1:{}", guarded.port()).parse().unwrap());
    // If the call waited this long, the test runner would abort the test.
    let limit = Duration::from_secs(3_600);
    let database = format!("{:#}", connections::store(&config, limit).await.unwrap_err());
    let log = format!("{:#}", connections::event_log(&config, limit).await.err().unwrap());
    for (message, cause) in [(database, "password authentication failed"), (log, "authorization violation")] {
        assert!(message.contains("refuses the connection") && message.contains(cause), "{message}");
        assert!(!message.contains("hunter2"), "{message}");
    }
}

#[tokio::test]
async fn a_database_without_a_free_session_names_the_cause() {
    let files = tempfile::tempdir().unwrap();
    let postgres = Postgres::start_fast(&files.path().join("cluster")).await.unwrap();
    let mut config = Config::default();
    config.database.url = Some(postgres.url().parse().unwrap());
    config.database.max_connections = 2;
    let first = connections::store(&config, LIMIT).await.unwrap();
    let allowed = first.server_sessions().await.unwrap().allowed;
    let options: PgConnectOptions = postgres.url().parse().unwrap();
    let mut taken = Vec::new();
    while let Ok(session) = PgConnection::connect_with(&options).await {
        taken.push(session);
        assert!(taken.len() as u64 <= 2 * allowed, "the server does not limit its sessions");
    }
    let refused = format!("{:#}", connections::store(&config, Duration::from_secs(5)).await.unwrap_err());
    assert!(
        refused.contains("too many clients") || refused.contains("remaining connection slots"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_foreign_master_key_is_refused_with_both_ids() {
    let installation = Installation::start().await;
    let context = Context::connect(installation.config.clone()).await.unwrap();
    let right = context.master_key.id();
    let app = NewApp { name: "shop", api_key: "ak_shop", development: false };
    let draft = context.store.control().create_app(app, &Actor::System).await.unwrap().unwrap();
    let app = draft.commit(NewSecret { digest: b"digest", sealed: b"sealed" }).await.unwrap();
    link::create(&context.store, &context.master_key, app).await.unwrap();
    Context::connect(installation.config.clone()).await.unwrap();

    let files = tempfile::tempdir().unwrap();
    let mut config = installation.config.clone();
    let foreign = MasterKey::generate_file(&files.path().join("foreign.key")).unwrap().id();
    config.security.master_key_file = Some(files.path().join("foreign.key"));
    let refused = format!("{:#}", Context::connect(config.clone()).await.err().unwrap());
    assert!(refused.contains(&right) && refused.contains(&foreign), "{refused}");

    // During a rotation, the records of the database may be sealed with the previous key. If that key is permanently lost, the
    // configuration can list it as lost.
    config.security.previous_master_key_file = installation.config.security.master_key_file.clone();
    Context::connect(config.clone()).await.unwrap();
    config.security.previous_master_key_file = None;
    config.security.lost_master_keys = vec![right];
    Context::connect(config).await.unwrap();
}

#[tokio::test]
async fn a_missing_setting_is_named_with_its_variable() {
    let config = Config::default();
    let error = connections::store(&config, Duration::ZERO).await.unwrap_err().to_string();
    assert!(error.contains("TIDINGS_DATABASE__URL"), "{error}");
    let error = Context::connect(config).await.err().unwrap().to_string();
    assert!(error.contains("security.master_key_file"), "{error}");
}

#[tokio::test]
async fn a_service_that_ends_early_stops_the_process() {
    let installation = Installation::start().await;
    let context = Context::connect(installation.config.clone()).await.unwrap();
    context.serve("orderly", |context| async move {
        context.tasks.stopping().await;
        Ok(())
    });
    context.serve("early", |_| async { Ok(()) });
    let ended = tokio::time::timeout(Duration::from_secs(30), context.tasks.finish()).await.unwrap();
    assert_eq!(ended, Err(service_kit::ShutdownError::Failed("early")));
}

#[tokio::test]
async fn the_log_has_received_every_acknowledgement_before_the_process_ends() {
    const SENDS: StreamName = StreamName::Send(Lane::Transactional);
    let settings = ConsumerSettings { ack_wait: Duration::from_secs(3_600), max_ack_pending: 10 };
    let installation = Installation::start().await;
    let context = Context::connect(installation.config.clone()).await.unwrap();
    context.log.publish(Message { stream: SENDS, id: None, payload: "a send".into() }).await.unwrap();

    let config = installation.config.clone();
    let process = move || {
        // When the runtime ends, data that the connection has not written yet is lost.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let context = Context::connect(config).await.unwrap();
            let consumer = context.consumer(SENDS, "dispatcher", settings).await.unwrap();
            let delivered = consumer.fetch(1, LIMIT).await.unwrap().pop().unwrap();
            context.tasks.stop();
            delivered.nak(None).await.unwrap();
            context.finish().await.unwrap();
        });
    };
    tokio::task::spawn_blocking(process).await.unwrap();

    let consumer = context.consumer(SENDS, "dispatcher", settings).await.unwrap();
    let again = consumer.fetch(1, LIMIT).await.unwrap();
    assert_eq!(again.iter().map(|delivered| delivered.deliveries).collect::<Vec<_>>(), [2]);
}
