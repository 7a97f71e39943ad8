use std::time::Duration;

use domain::{Lane, StreamName};
use event_log::{ConsumerSettings, Message};
use service_kit::{Config, Context, MasterKey, connections, installation};
use testkit::{Database, NatsServer};

pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Servers of its own, prepared for Tidings, and a configuration that points at them.
pub(crate) struct Installation {
    pub(crate) config: Config,
    pub(crate) nats: NatsServer,
    _database: Database,
    _files: tempfile::TempDir,
}

impl Installation {
    pub(crate) async fn start() -> Self {
        let database = Database::create().await;
        let nats = NatsServer::start().await.unwrap();
        let files = tempfile::tempdir().unwrap();
        let key = files.path().join("master.key");
        MasterKey::generate_file(&key).unwrap();
        let mut config = Config::default();
        config.database.url = Some(database.url().parse().unwrap());
        config.nats.url = Some(nats.url().parse().unwrap());
        config.security.master_key_file = Some(key);
        config.metrics.listen.set_port(0);
        let store = connections::store(&config, LIMIT).await.unwrap();
        let log = connections::event_log(&config, LIMIT).await.unwrap();
        store.migrate().await.unwrap();
        installation::prepare(&store, &log, config.streams.partitions).await.unwrap();
        Installation { config, nats, _database: database, _files: files }
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
async fn servers_may_come_up_later() {
    let mut installation = Installation::start().await;
    installation.nats.kill();
    let config = installation.config.clone();
    let connecting = tokio::spawn(async move { connections::event_log(&config, LIMIT).await });
    assert!(connections::event_log(&installation.config, Duration::ZERO).await.is_err(), "nobody is there");
    installation.nats.restart().await.unwrap();
    connecting.await.unwrap().unwrap().ping().await.unwrap();
}

#[tokio::test]
async fn an_unreachable_server_is_named_without_credentials() {
    let port = testkit::port::free().unwrap();
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
async fn what_is_not_set_is_named_with_its_variable() {
    let config = Config::default();
    let error = connections::store(&config, Duration::ZERO).await.unwrap_err().to_string();
    assert!(error.contains("TIDINGS_DATABASE__URL"), "{error}");
    let error = Context::connect(config).await.err().unwrap().to_string();
    assert!(error.contains("security.master_key_file"), "{error}");
}

#[tokio::test]
async fn a_service_that_ends_by_itself_stops_the_process() {
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
async fn the_log_has_read_every_answer_before_the_process_ends() {
    const SENDS: StreamName = StreamName::Send(Lane::Transactional);
    let settings = ConsumerSettings { ack_wait: Duration::from_secs(3_600), max_ack_pending: 10 };
    let installation = Installation::start().await;
    let context = Context::connect(installation.config.clone()).await.unwrap();
    context.log.publish(Message { stream: SENDS, id: None, payload: "a send".into() }).await.unwrap();

    let config = installation.config.clone();
    let process = move || {
        // What its connection has not written when the runtime ends is not written at all.
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
