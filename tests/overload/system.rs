//! Every service in a process of its own, with limits that are soon met.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use credentials::MasterKey;
use domain::Lane;
use event_log::EventLog;
use local_servers::{NatsServer, port};
use reqwest::Client;
use serde_json::{Value, json};
use service_kit::metrics::DISPATCH_PAUSED;
use service_kit::{Config, connections};
use sqlx::PgPool;
use stand_ins::outbox::Outbox;
use stand_ins::smtp::{SmtpSettings, SmtpStandIn};
use tempfile::TempDir;
use testkit::{Database, Service, eventually};

use crate::command::tidings;
use crate::generator::Request;

const SOON: Duration = Duration::from_secs(60);
const PARTITIONS: &str = "4";
/// More than all emails.
const KEPT_EMAILS: usize = 2_000_000;

/// The whole of Tidings, running.
pub(crate) struct System {
    pub(crate) database: PgPool,
    pub(crate) log: EventLog,
    pub(crate) outbox: Arc<Outbox>,
    /// By the name of the program.
    services: BTreeMap<&'static str, Service>,
    /// Where each tells of itself.
    metrics: BTreeMap<&'static str, String>,
    environment: Vec<(String, String)>,
    origin: String,
    app: Value,
    _nats: NatsServer,
    _smtp: SmtpStandIn,
    _database: Database,
    _files: TempDir,
}

impl System {
    /// With these programs, configured so.
    pub(crate) async fn start(programs: &[&'static str], configured: &[(&str, &str)]) -> System {
        service_kit::install_crypto_provider();
        let files = tempfile::Builder::new().prefix("tidings-overload-").tempdir().unwrap();
        let (database, nats) = (Database::create().await, NatsServer::start().await.unwrap());
        let outbox = Outbox::in_directory(files.path(), KEPT_EMAILS).unwrap();
        let smtp = SmtpStandIn::start(SmtpSettings::default(), Arc::clone(&outbox)).await.unwrap();
        let key_file = files.path().join("master.key");
        MasterKey::generate_file(&key_file).unwrap();
        let listen = format!("127.0.0.1:{}", port::free().unwrap());
        let mut environment = vec![
            ("TIDINGS_CONFIG", ""),
            ("TIDINGS_DATABASE__URL", database.url()),
            ("TIDINGS_NATS__URL", nats.url()),
            ("TIDINGS_STREAMS__PARTITIONS", PARTITIONS),
            ("TIDINGS_GATEWAY__LISTEN", &listen),
            ("TIDINGS_OUTBOUND__ALLOW_PRIVATE", "true"),
            ("TIDINGS_LOG__LEVEL", "error"),
            ("TIDINGS_SECURITY__MASTER_KEY_FILE", key_file.to_str().unwrap()),
        ];
        environment.extend(configured);
        tidings(&environment, &["migrate"], "");
        let app = tidings(&environment, &["app", "create", "shop", "--open", "--json"], "");
        let provider = json!({
            "identifier": "main", "channel": "email", "kind": "smtp", "settings": {
                "host": "127.0.0.1", "port": smtp.address().port(), "security": "none", "from": "shop@example.com",
            },
        });
        tidings(&environment, &["provider", "set", "shop"], &provider.to_string());
        let environment =
            environment.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let mut config = Config::default();
        config.nats.url = Some(nats.url().parse().unwrap());
        let mut system = System {
            database: PgPool::connect(database.url()).await.unwrap(),
            log: connections::event_log(&config, SOON).await.unwrap(),
            outbox,
            services: BTreeMap::new(),
            metrics: BTreeMap::new(),
            environment,
            origin: format!("http://{listen}"),
            app: serde_json::from_str(&app).unwrap(),
            _nats: nats,
            _smtp: smtp,
            _database: database,
            _files: files,
        };
        for program in programs {
            system.start_one(program);
        }
        let ready = format!("{}/readyz", system.origin);
        eventually(SOON, "the API is ready", async || {
            reqwest::get(&ready).await.ok()?.status().is_success().then_some(())
        })
        .await;
        system
    }

    /// Starts a program.
    pub(crate) fn start_one(&mut self, program: &'static str) {
        let metrics = format!("127.0.0.1:{}", port::free().unwrap());
        let common = self.environment.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let environment: Vec<_> = common.chain([("TIDINGS_METRICS__LISTEN", metrics.as_str())]).collect();
        self.services.insert(program, Service::start(program, &[], &environment).unwrap());
        self.metrics.insert(program, format!("http://{metrics}/metrics"));
    }

    /// Whether the dispatcher leaves sends of the lane in the log, for want of room. Before it says so, it does not.
    pub(crate) async fn is_dispatch_paused(&self, lane: Lane) -> bool {
        let Ok(answer) = reqwest::get(&self.metrics["tidings-dispatcher"]).await else { return false };
        let paused = format!("{DISPATCH_PAUSED}{{lane=\"{lane}\"}} 1");
        answer.text().await.unwrap().lines().any(|line| line == paused)
    }

    /// Sets switches of the app; the gateway may know them seconds later.
    pub(crate) fn set_app(&self, switches: &[&str]) {
        let environment: Vec<_> =
            self.environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        tidings(&environment, &[&["app", "set", "shop"], switches].concat(), "");
    }

    /// What a send goes to.
    pub(crate) fn request(&self) -> Request {
        self.request_of(&self.app)
    }

    /// Where the gateway listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.origin.strip_prefix("http://").unwrap().parse().unwrap()
    }

    /// Creates an app beside the first, whose public key alone may act for users; returns what its sends go to.
    pub(crate) fn another_app(&self, name: &str) -> Request {
        let environment: Vec<_> =
            self.environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let app = tidings(&environment, &["app", "create", name, "--json"], "");
        tidings(&environment, &["app", "set", name, "secure-mode=off"], "");
        self.request_of(&serde_json::from_str(&app).unwrap())
    }

    fn request_of(&self, app: &Value) -> Request {
        let text = |name: &str| app[name].as_str().unwrap().to_owned();
        Request {
            url: format!("{}/v3/notifications", self.origin),
            key: text("apiKey"),
            secret: text("apiSecret"),
        }
    }

    /// Creates people with these identifiers, each with an email address.
    pub(crate) async fn create_people(&self, people: &[String]) {
        let request = self.request();
        let request = Request { url: format!("{}/v3/users/bulk", self.origin), ..request };
        let client = Client::new();
        for people in people.chunks(500) {
            let users: Vec<Value> = people
                .iter()
                .map(|name| json!({"identifier": name, "profile": {"email": format!("{name}@example.com")}}))
                .collect();
            let answer = request.send(&client, &json!(users)).await;
            assert_eq!(answer.status(), 200, "{}", answer.text().await.unwrap());
        }
    }

    pub(crate) async fn count(&self, query: &'static str) -> i64 {
        sqlx::query_scalar(query).fetch_one(&self.database).await.unwrap()
    }

    /// The most memory that each process ever had, in MiB. Everybody still runs.
    pub(crate) fn most_memory(&mut self) -> BTreeMap<&'static str, u64> {
        let mut most = BTreeMap::new();
        for (name, service) in &mut self.services {
            let ended = service.ended().unwrap();
            assert!(ended.is_none(), "{name} ended: {ended:?}");
            most.insert(*name, most_memory_of(service.id()));
        }
        most
    }
}

/// As the kernel tells it: see `VmHWM` in proc(5).
fn most_memory_of(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
    kibibytes / 1024
}
