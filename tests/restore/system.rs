//! Every service in a process of its own, set up by the commands that operators use.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use credentials::MasterKey;
use event_log::EventLog;
use local_servers::{NatsServer, port};
use serde_json::Value;
use service_kit::{Config, connections};
use sqlx::PgPool;
use tempfile::TempDir;
use testkit::{Database, SERVICES, Service, eventually};

use crate::api::Api;
use crate::command::tidings;
use crate::providers::Providers;

pub(crate) const PARTITIONS: u32 = 2;
pub(crate) const APP: &str = "shop";
const SOON: Duration = Duration::from_secs(60);

/// The whole of Tidings.
pub(crate) struct System {
    pub(crate) api: Api,
    pub(crate) log: EventLog,
    pub(crate) database: PgPool,
    pub(crate) providers: Providers,
    pub(crate) files: TempDir,
    variables: Vec<(String, String)>,
    current: Arc<Database>,
    services: Vec<(&'static str, Service)>,
    _nats: NatsServer,
}

impl System {
    pub(crate) async fn start() -> System {
        let files = tempfile::Builder::new().prefix("tidings-restore-").tempdir().unwrap();
        let (current, nats) = (Arc::new(Database::create().await), NatsServer::start().await.unwrap());
        let providers = Providers::start().await;
        let key_file = files.path().join("master.key");
        MasterKey::generate_file(&key_file).unwrap();
        let api_address = format!("127.0.0.1:{}", port::free().unwrap());
        let push_service = providers.push_service.url();
        let partitions = PARTITIONS.to_string();
        let variables = [
            ("TIDINGS_CONFIG", ""),
            ("TIDINGS_NATS__URL", nats.url()),
            ("TIDINGS_STREAMS__PARTITIONS", &partitions),
            ("TIDINGS_GATEWAY__LISTEN", &api_address),
            ("TIDINGS_METRICS__LISTEN", "127.0.0.1:0"),
            ("TIDINGS_SECURITY__MASTER_KEY_FILE", key_file.to_str().unwrap()),
            ("TIDINGS_OUTBOUND__ALLOW_PRIVATE", "true"),
            ("TIDINGS_WEB_PUSH__HOSTS", &push_service),
            ("TIDINGS_DELIVERY__LEASE", "10s"),
            ("TIDINGS_DELIVERY__ACK_WAIT", "5s"),
            ("TIDINGS_DELIVERY__RETRY_SCHEDULE", "0s,500ms,500ms,1s,1s,1s"),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let app = set_up(&with_database(&variables, current.url()), &providers.documents());
        let mut config = Config::default();
        config.nats.url = Some(nats.url().parse().unwrap());
        let log = connections::event_log(&config, connections::CONNECTED_WITHIN).await.unwrap();
        let text = |name: &str| app[name].as_str().unwrap();
        let api = Api::new(&format!("http://{api_address}"), text("apiKey"), text("apiSecret"));
        let database = PgPool::connect(current.url()).await.unwrap();
        let services = Vec::new();
        let mut system =
            System { api, log, database, providers, files, variables, current, services, _nats: nats };
        system.start_services().await;
        system
    }

    pub(crate) async fn start_services(&mut self) {
        let environment = self.environment();
        let environment = borrowed(&environment);
        self.services =
            SERVICES.map(|program| (program, Service::start(program, &[], &environment).unwrap())).into();
        self.api.ready().await;
    }

    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        with_database(&self.variables, self.current.url())
    }

    pub(crate) fn current_database(&self) -> Arc<Database> {
        Arc::clone(&self.current)
    }

    /// Returns once the database knows how far the log has been acted on.
    pub(crate) async fn is_marked(&self) {
        eventually(SOON, "the log is marked", async || {
            let marks: i64 = sqlx::query_scalar("SELECT count(*) FROM log_mark WHERE seq > 0")
                .fetch_one(&self.database)
                .await
                .unwrap();
            (marks >= 3).then_some(())
        })
        .await;
    }

    /// kill -9, all at once.
    pub(crate) fn kill_services(&mut self) {
        for (_, service) in &mut self.services {
            service.kill();
        }
    }

    /// The database is gone, and the dump is restored into an empty one.
    pub(crate) async fn lose_the_database(&mut self, dump: &Path) {
        self.database.close().await;
        self.current = Arc::new(Database::restored(dump).await.unwrap());
        self.database = PgPool::connect(self.current.url()).await.unwrap();
    }

    /// Each says what is to be done.
    pub(crate) fn services_refuse_to_start(&self) {
        let environment = self.environment();
        for program in SERVICES.into_iter().chain(["tidings"]) {
            let mut command = std::process::Command::new(testkit::binary(program));
            command.args((program == "tidings").then_some("migrate")).envs(borrowed(&environment));
            let output = command.output().unwrap();
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said);
            assert!(!output.status.success(), "{program} starts: {said}");
            assert!(said.contains("`tidings restore`"), "{program}: {said}");
        }
    }

    /// Nothing of all this may end a service.
    pub(crate) fn assert_running(&mut self) {
        for (name, service) in &mut self.services {
            let ended = service.ended().unwrap();
            let log = std::fs::read_to_string(service.log()).unwrap();
            let tail: Vec<&str> = log.lines().rev().take(5).collect();
            assert!(ended.is_none(), "{name} ended by itself ({ended:?}):\n{}", tail.join("\n"));
        }
    }
}

fn with_database(variables: &[(String, String)], url: &str) -> Vec<(String, String)> {
    let url = ("TIDINGS_DATABASE__URL".to_owned(), url.to_owned());
    variables.iter().cloned().chain([url]).collect()
}

pub(crate) fn borrowed(environment: &[(String, String)]) -> Vec<(&str, &str)> {
    environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

/// Returns the app as `tidings app create` prints it.
fn set_up(environment: &[(String, String)], providers: &[Value]) -> Value {
    let environment = borrowed(environment);
    tidings(&environment, &["migrate"], "");
    let app = tidings(&environment, &["app", "create", APP, "--open", "--json"], "");
    for provider in providers {
        tidings(&environment, &["provider", "set", APP], &provider.to_string());
    }
    serde_json::from_str(&app).unwrap()
}
