//! Every part in a process of its own, set up by the commands that operators use.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;

use event_log::EventLog;
use serde_json::{Value, json};
use service_kit::{Config, MasterKey, connections};
use sqlx::PgPool;
use tempfile::TempDir;
use testkit::outbox::Outbox;
use testkit::smtp::{SmtpSettings, SmtpStandIn};
use testkit::{Database, NatsServer, Service, port};

use crate::api::Api;

/// A part that can be killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    Gateway,
    Dispatcher,
    Inbox,
    Email,
    Nats,
}

/// The services, and their programs.
const SERVICES: [(Part, &str); 4] = [
    (Part::Gateway, "tidings-gateway"),
    (Part::Dispatcher, "tidings-dispatcher"),
    (Part::Inbox, "tidings-inbox"),
    (Part::Email, "tidings-email"),
];
pub(crate) const PARTITIONS: u32 = 4;
/// The parts have to come back to what a killed process held; with the usual times that would take minutes.
const IMPATIENT: [(&str, &str); 3] = [
    ("TIDINGS_DELIVERY__LEASE", "10s"),
    ("TIDINGS_DELIVERY__ACK_WAIT", "5s"),
    ("TIDINGS_DELIVERY__RETRY_SCHEDULE", "0s,1s,1s,2s,2s,5s,5s"),
];
/// More than all emails and their repeats.
const KEPT_EMAILS: usize = 50_000;

/// The whole of Tidings, running.
pub(crate) struct System {
    pub(crate) api: Api,
    pub(crate) log: EventLog,
    pub(crate) database: PgPool,
    pub(crate) outbox: Arc<Outbox>,
    services: BTreeMap<Part, Service>,
    nats: NatsServer,
    _smtp: SmtpStandIn,
    _database: Database,
    _files: TempDir,
}

impl System {
    pub(crate) async fn start() -> System {
        let files = tempfile::Builder::new().prefix("tidings-crash-").tempdir().unwrap();
        let database = Database::create().await;
        let nats = NatsServer::start().await.unwrap();
        let outbox = Outbox::in_directory(files.path(), KEPT_EMAILS).unwrap();
        let smtp = SmtpStandIn::start(SmtpSettings::default(), Arc::clone(&outbox)).await.unwrap();
        let key_file = files.path().join("master.key");
        MasterKey::generate_file(&key_file).unwrap();
        let api_address = format!("127.0.0.1:{}", port::free().unwrap());
        let partitions = PARTITIONS.to_string();
        let mut environment = vec![
            ("TIDINGS_CONFIG", ""),
            ("TIDINGS_DATABASE__URL", database.url()),
            ("TIDINGS_NATS__URL", nats.url()),
            ("TIDINGS_STREAMS__PARTITIONS", &partitions),
            ("TIDINGS_GATEWAY__LISTEN", &api_address),
            ("TIDINGS_METRICS__LISTEN", "127.0.0.1:0"),
            ("TIDINGS_SECURITY__MASTER_KEY_FILE", key_file.to_str().unwrap()),
        ];
        environment.extend(IMPATIENT);
        let app = set_up(&environment, smtp.address().port());
        let services = SERVICES
            .map(|(part, program)| (part, Service::start(program, &[], &environment).unwrap()))
            .into();

        let mut config = Config::default();
        config.nats.url = Some(nats.url().parse().unwrap());
        let log = connections::event_log(&config, connections::CONNECTED_WITHIN).await.unwrap();
        let api = Api::new(format!("http://{api_address}"), &app);
        api.ready().await;
        System {
            api,
            log,
            database: PgPool::connect(database.url()).await.unwrap(),
            outbox,
            services,
            nats,
            _smtp: smtp,
            _database: database,
            _files: files,
        }
    }

    /// kill -9, and a new start.
    pub(crate) async fn kill(&mut self, part: Part) {
        match part {
            Part::Nats => self.nats.restart().await.unwrap(),
            service => self.services.get_mut(&service).unwrap().restart().unwrap(),
        }
    }

    /// Nothing that happens to the others may end a part.
    pub(crate) fn assert_running(&mut self) {
        for (part, service) in &mut self.services {
            let ended = service.ended().unwrap();
            let log = std::fs::read_to_string(service.log()).unwrap();
            let tail: Vec<&str> = log.lines().rev().take(5).collect();
            assert!(ended.is_none(), "{part:?} ended by itself ({ended:?}):\n{}", tail.join("\n"));
        }
    }
}

/// Returns the app as `tidings app create` prints it.
fn set_up(environment: &[(&str, &str)], smtp_port: u16) -> Value {
    tidings(environment, &["migrate"], "");
    let app = tidings(environment, &["app", "create", "crash", "--json"], "");
    let provider = json!({
        "identifier": "main", "channel": "email", "kind": "smtp",
        "settings": {
            "host": "127.0.0.1", "port": smtp_port, "security": "none",
            "from": "shop@example.com", "fromName": "Shop",
        },
    });
    tidings(environment, &["provider", "set", "crash"], &provider.to_string());
    serde_json::from_str(&app).unwrap()
}

/// Runs the command, and returns what it printed.
fn tidings(environment: &[(&str, &str)], arguments: &[&str], input: &str) -> String {
    let mut child = Command::new(testkit::binary("tidings"))
        .args(arguments)
        .envs(environment.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that wants no input may have ended before it is written.
    child.stdin.take().unwrap().write_all(input.as_bytes()).ok();
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success(), "tidings {arguments:?}: {}", ended.status);
    String::from_utf8(ended.stdout).unwrap()
}
