//! Every service in two processes of its own, set up by the commands that operators use.

use std::collections::BTreeSet;
use std::process::ExitStatus;
use std::time::Duration;

use credentials::MasterKey;
use local_servers::{NatsServer, port};
use reqwest::Client;
use serde_json::Value;
use sqlx::PgPool;
use tempfile::TempDir;
use testkit::{Database, SERVICES, Service, eventually};
use tokio::net::TcpStream;

use crate::command::tidings;
use crate::providers::Providers;

const SOON: Duration = Duration::from_secs(60);
/// How long a service may take to stop.
const STOPPED_WITHIN: Duration = Duration::from_secs(30);
const INSTANCES: usize = 2;
const GATEWAY: &str = "tidings-gateway";
/// Whoever had to wait for what a process left behind would wait for longer than a test runs.
const PATIENT: [(&str, &str); 2] = [("TIDINGS_DELIVERY__LEASE", "1h"), ("TIDINGS_DELIVERY__ACK_WAIT", "50m")];
const APP: &str = "shop";

/// A process.
pub(crate) struct Part {
    pub(crate) name: String,
    service: Service,
    /// Says whether it can do its work.
    readiness: String,
    /// Where a gateway takes calls.
    api: Option<String>,
}

/// The whole of Tidings, running.
pub(crate) struct System {
    /// Of each gateway.
    pub(crate) origins: Vec<String>,
    /// As `tidings app create --json` prints it.
    pub(crate) app: Value,
    pub(crate) parts: Vec<Part>,
    pub(crate) database: PgPool,
    pub(crate) providers: Providers,
    /// What every process is told.
    pub(crate) environment: Vec<(String, String)>,
    _nats: NatsServer,
    _database: Database,
    _files: TempDir,
}

impl System {
    pub(crate) async fn start() -> System {
        let files = tempfile::Builder::new().prefix("tidings-upgrades-").tempdir().unwrap();
        let (database, nats) = (Database::create().await, NatsServer::start().await.unwrap());
        let providers = Providers::start(files.path()).await;
        let push_service = providers.push_service.url();
        let key_file = files.path().join("master.key");
        MasterKey::generate_file(&key_file).unwrap();
        let mut environment = vec![
            ("TIDINGS_CONFIG", ""),
            ("TIDINGS_DATABASE__URL", database.url()),
            ("TIDINGS_NATS__URL", nats.url()),
            ("TIDINGS_OUTBOUND__ALLOW_PRIVATE", "true"),
            ("TIDINGS_SECURITY__MASTER_KEY_FILE", key_file.to_str().unwrap()),
            ("TIDINGS_WEB_PUSH__HOSTS", &push_service),
        ];
        environment.extend(PATIENT);
        let app = set_up(&environment, &providers);
        let (origins, parts) = start_all(&environment);
        let system = System {
            origins,
            app,
            parts,
            database: PgPool::connect(database.url()).await.unwrap(),
            environment: environment
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            providers,
            _nats: nats,
            _database: database,
            _files: files,
        };
        for part in &system.parts {
            part.ready().await;
        }
        system
    }

    /// Nobody ends because of what happens to others.
    pub(crate) fn assert_running(&mut self) {
        for part in &mut self.parts {
            let ended = part.service.ended().unwrap();
            assert!(ended.is_none(), "{} ended by itself ({ended:?}):\n{}", part.name, part.last_words());
        }
    }
}

/// Returns the app as `tidings app create` prints it. Its backend is told of everything.
fn set_up(environment: &[(&str, &str)], providers: &Providers) -> Value {
    let printed =
        |arguments: &[&str]| -> Value { serde_json::from_str(&tidings(environment, arguments, "")).unwrap() };
    tidings(environment, &["migrate"], "");
    let app = printed(&["app", "create", APP, "--open", "--json"]);
    for provider in providers.documents() {
        tidings(environment, &["provider", "set", APP], &provider.to_string());
    }
    let endpoint = printed(&["webhook", "set", APP, &providers.backend.url("/tidings"), "--json"]);
    providers.backend.trust(&[endpoint["secret"].as_str().unwrap()]);
    app
}

/// Starts every program twice. Returns the origins of the gateways, and all.
fn start_all(environment: &[(&str, &str)]) -> (Vec<String>, Vec<Part>) {
    let ports = free_ports(SERVICES.len() * INSTANCES + INSTANCES);
    let (of_gateways, of_health) = ports.split_at(INSTANCES);
    let mut health = of_health.iter();
    let mut parts = Vec::new();
    for program in SERVICES {
        for (number, gateway) in of_gateways.iter().enumerate() {
            let (listen, metrics) =
                (format!("127.0.0.1:{gateway}"), format!("127.0.0.1:{}", health.next().unwrap()));
            let own = [("TIDINGS_GATEWAY__LISTEN", &*listen), ("TIDINGS_METRICS__LISTEN", &*metrics)];
            let environment = [environment, own.as_slice()].concat();
            parts.push(Part {
                name: format!("{program} {number}"),
                service: Service::start(program, &[], &environment).unwrap(),
                readiness: format!("http://{metrics}/readyz"),
                api: (program == GATEWAY).then_some(listen),
            });
        }
    }
    (of_gateways.iter().map(|port| format!("http://127.0.0.1:{port}")).collect(), parts)
}

fn free_ports(count: usize) -> Vec<u16> {
    let mut ports = BTreeSet::new();
    while ports.len() < count {
        ports.insert(port::free().unwrap());
    }
    ports.into_iter().collect()
}

impl Part {
    /// Waits until it can do its work.
    pub(crate) async fn ready(&self) {
        let client = Client::new();
        eventually(SOON, &format!("{} is ready", self.name), async || {
            let answer = client.get(&self.readiness).send().await.ok()?;
            answer.status().is_success().then_some(())
        })
        .await;
        if let Some(api) = &self.api {
            TcpStream::connect(api).await.expect("who is ready listens");
        }
    }

    /// SIGTERM.
    pub(crate) fn terminate(&mut self) {
        self.service.terminate().unwrap();
    }

    /// Waits for its end.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let what = format!("{} stops", self.name);
        eventually(STOPPED_WITHIN, &what, async || self.service.ended().unwrap()).await
    }

    /// SIGTERM, an end in order, and a new start.
    pub(crate) async fn restart(&mut self) {
        self.terminate();
        let ended = self.ended().await;
        assert!(ended.success(), "{}: {ended}\n{}", self.name, self.last_words());
        self.service.restart().unwrap();
        self.ready().await;
    }

    fn last_words(&self) -> String {
        let log = std::fs::read_to_string(self.service.log()).unwrap();
        let mut lines: Vec<&str> = log.lines().rev().take(10).collect();
        lines.reverse();
        lines.join("\n")
    }
}
