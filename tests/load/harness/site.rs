//! The installation under load: every service that a send to email passes, with two email workers, and a provider that takes its time.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use domain::Channel;
use domain::content::Object;
use local_servers::port;
use serde_json::json;
use sqlx::{Connection, PgConnection};
use stand_ins::outbox::Outbox;
use stand_ins::smtp::{SmtpSettings, SmtpStandIn};
use suite::sessions;
use tempfile::TempDir;
use testkit::{Service, eventually};
use tokio::net::TcpStream;
use tokio::time::Instant;
use uuid::Uuid;

use super::meter::Meter;
use super::options::Options;
use super::producer::Producer;
use crate::installation::Installation;
use crate::role::Role;

/// Recipients. If they were few, a worker would postpone the emails of a user who gets many at once.
pub(crate) const USERS: usize = 4_000;
const SOON: Duration = Duration::from_secs(60);
/// Settings of the original's `postgres.conf`, except those that equal the defaults.
const POSTGRES: [(&str, &str); 4] = [
    ("shared_buffers", "256MB"),
    ("work_mem", "8MB"),
    ("maintenance_work_mem", "128MB"),
    ("log_autovacuum_min_duration", "0"),
];

pub(crate) struct Site {
    pub(crate) installation: Installation,
    pub(crate) provider: SmtpStandIn,
    pub(crate) meter: Meter,
    pub(crate) gateway: SocketAddr,
    pub(crate) accepted: PathBuf,
    workers: [Service; 2],
    _others: Vec<Service>,
    _files: TempDir,
}

pub(crate) fn user(index: usize) -> String {
    format!("user-{}", index % USERS)
}

impl Site {
    pub(crate) async fn start(options: &Options) -> Site {
        let settings: &[_] = if options.default_postgres { &[] } else { &POSTGRES };
        let installation = Installation::start_with(settings, options.unsynced).await;
        let files = tempfile::Builder::new().prefix("tidings-harness-").tempdir().unwrap();
        let accepted = files.path().join("accepted.jsonl");
        let work = Duration::from_millis(options.work_ms);
        let smtp = SmtpSettings { work, max_connections: 2_048, ..SmtpSettings::default() };
        let provider = SmtpStandIn::start(smtp, Outbox::listed(&accepted).unwrap()).await.unwrap();
        add_users(&installation).await;
        let relay = json!({
            "host": "127.0.0.1", "port": provider.address().port(), "security": "none", "from": "shop@example.com",
        });
        installation.provider(Channel::Email, "smtp", &relay, &json!({})).await;

        let gateway = SocketAddr::from(([127, 0, 0, 1], port::free().unwrap()));
        let environment = environment(options, gateway);
        let environment: Vec<_> = environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let start = |role| installation.serve(role, &environment);
        let others = [Role::Gateway, Role::Dispatcher, Role::Inbox, Role::Webhooks].map(start);
        let workers = [Role::Email, Role::Email].map(start);
        eventually(SOON, "the gateway listens", async || TcpStream::connect(gateway).await.ok()).await;
        let meter = Meter::default();
        others.iter().chain(&workers).for_each(|service| meter.add_service(service.id()));
        let others = others.into();
        Site { installation, provider, meter, gateway, accepted, workers, _others: others, _files: files }
    }

    /// Kills the first worker. Returns false if it did not run.
    pub(crate) fn kill_worker(&mut self) -> bool {
        let ran = self.workers[0].ended().unwrap().is_none();
        self.meter.used();
        self.workers[0].kill();
        ran
    }

    /// Starts the first worker. Returns false if it runs already.
    pub(crate) fn start_worker(&mut self) -> bool {
        let ended = self.workers[0].ended().unwrap().is_some();
        if ended {
            self.workers[0].restart().unwrap();
            self.meter.add_service(self.workers[0].id());
        }
        ended
    }

    /// Waits until every accepted job has ended. Returns the time that this took, or None after the limit.
    pub(crate) async fn is_empty(&self, producer: &Producer, limit: Duration) -> Option<Duration> {
        let begin = Instant::now();
        let empty = local_servers::waiting::within(limit, async || {
            // Ask PostgreSQL only at the end, because it reads the deliveries of all phases since the last time.
            if producer.depth() > 0 {
                return None;
            }
            let sends = producer.unended();
            let jobs: u64 = sends.iter().map(|send| send.jobs).sum();
            let ids = sends.iter().map(|send| send.send).collect();
            (self.ended(ids).await? >= jobs).then(|| producer.set_ended(sends.len()))
        });
        empty.await.map(|()| begin.elapsed())
    }

    /// Number of deliveries of these sends that have ended. None if PostgreSQL is unavailable.
    async fn ended(&self, sends: Vec<Uuid>) -> Option<u64> {
        let mut session = sessions::open(self.installation.database_url()).await.ok()?;
        let ended = "SELECT count(*) FROM delivery
            WHERE send_id = ANY($1) AND status NOT IN ('queued', 'sending', 'retrying')";
        let ended: i64 = sqlx::query_scalar(ended).bind(sends).fetch_one(&mut session).await.ok()?;
        u64::try_from(ended).ok()
    }

    pub(crate) async fn connect(&self) -> PgConnection {
        PgConnection::connect(self.installation.database_url()).await.unwrap()
    }
}

/// Settings of all services. Each email worker makes half of the calls of a lane. A provider may use three quarters of a worker's
/// concurrency, rounded up.
fn environment(options: &Options, gateway: SocketAddr) -> Vec<(&'static str, String)> {
    let concurrency = options.workers / 2 * 4 / 3;
    let lease = humantime::format_duration(options.lease).to_string();
    vec![
        ("TIDINGS_GATEWAY__LISTEN", gateway.to_string()),
        ("TIDINGS_GATEWAY__TRANSACTIONAL_RATE", "1000000".to_owned()),
        ("TIDINGS_OUTBOUND__ALLOW_PRIVATE", "true".to_owned()),
        ("TIDINGS_DELIVERY__MAX_CONCURRENCY", concurrency.to_string()),
        ("TIDINGS_DELIVERY__LEASE", lease.clone()),
        ("TIDINGS_DELIVERY__ACK_WAIT", lease),
        ("TIDINGS_DELIVERY__RETRY_SCHEDULE", "0s,1s,2s,4s,8s,16s,30s,30s".to_owned()),
    ]
}

async fn add_users(installation: &Installation) {
    let names: Vec<String> = (0..USERS).map(user).collect();
    for some in names.chunks(16) {
        let merges = some.iter().map(|name| {
            let profile = Object::from_iter([("email".to_owned(), json!(format!("{name}@example.com")))]);
            installation.store.directory().merge_user(installation.app, name, profile)
        });
        for merged in futures_util::future::join_all(merges).await {
            merged.unwrap();
        }
    }
}
