//! The configuration: one TOML file, and environment variables that override it.

mod console;
mod gateway;
mod nats;
mod network;
mod oidc;
mod problem;
mod retention;
mod settings;

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use credentials::Security;
use domain::web_push::PushHost;

use crate::{ServerUrl, log_filter};
use settings::Settings;

pub use console::Console;
pub use gateway::Gateway;
pub use nats::Nats;
pub use network::Network;
pub use oidc::{Oidc, RoleRule, is_guarded};
pub use problem::{ConfigError, Origin, Problem};
pub use retention::{Inbox, Sends};

/// Applies if the command line names no file.
const FILE_VARIABLE: &str = "TIDINGS_CONFIG";
/// Variables that commands read; they are not settings.
const OF_COMMANDS: [&str; 4] = [FILE_VARIABLE, "TIDINGS_DATA_DIR", "TIDINGS_URL", "TIDINGS_TOKEN"];
/// Seconds: eight attempts over nine hours.
const RETRY_SCHEDULE: [u64; 8] = [0, 5, 30, 120, 600, 1_800, 7_200, 21_600];
/// More than a gateway on a small machine can serve.
const RATE_LIMIT: u32 = 10_000;
/// Loading a page causes about a dozen requests.
const USER_RATE_LIMIT: u32 = 100;
/// Enough for an office behind one address.
const PEER_RATE_LIMIT: u32 = 1_000;
const REFUSAL_RATE_LIMIT: u32 = 100;
const CONNECTIONS: usize = 8_192;
const TRANSACTIONAL_RATE: u32 = 10_000;
/// Seconds: eleven attempts over 22 hours.
const WEBHOOK_RETRY_SCHEDULE: [u64; 10] = [5, 30, 120, 600, 1_800, 3_600, 7_200, 14_400, 21_600, 28_800];
/// A process that stops has 30 s to finish its calls and to record their outcomes.
const LONGEST_WEBHOOK: Duration = Duration::from_secs(20);
/// Hundreds of times the number of requests that wait while PostgreSQL and NATS answer normally.
const WAITING_ROOM: usize = 4_096;
/// About 250 MiB of memory.
const REALTIME_CONNECTIONS: usize = 10_000;
/// Long enough for a load balancer that checks readiness every second.
const DRAIN: Duration = Duration::from_secs(2);
/// After this time, requests in progress have 20 s to finish, and the process must end within 30 s.
const LONGEST_DRAIN: Duration = Duration::from_secs(8);
const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);

/// All settings, as `deploy/config/tidings.toml` describes them. [`Config::default`] holds the defaults.
#[derive(Clone, Debug)]
pub struct Config {
    /// Without the trailing hyphen. At least one, all different.
    pub header_prefixes: Vec<String>,
    pub database: Database,
    pub nats: Nats,
    pub streams: Streams,
    pub sends: Sends,
    pub inbox: Inbox,
    pub gateway: Gateway,
    pub console: Console,
    pub metrics: Metrics,
    pub security: Security,
    pub delivery: Delivery,
    pub web_push: WebPush,
    pub webhooks: Webhooks,
    pub outbound: Outbound,
    pub log: Log,
    pub otlp: Otlp,
}

#[derive(Clone, Debug)]
pub struct Database {
    pub url: Option<ServerUrl>,
    pub max_connections: u32,
}

#[derive(Clone, Debug)]
pub struct Streams {
    /// Fixed when Tidings is installed.
    pub partitions: u32,
    /// Services refuse to start if the configuration sets `partitions` and the installation has a different number.
    pub partitions_are_set: bool,
    pub retention: Duration,
}

/// Every service serves `/metrics`, `/healthz` and `/readyz`.
#[derive(Clone, Debug)]
pub struct Metrics {
    pub listen: SocketAddr,
}

#[derive(Clone, Debug)]
pub struct Delivery {
    pub lease: Duration,
    pub ack_wait: Duration,
    pub retry_schedule: Vec<Duration>,
    pub max_concurrency: usize,
    pub receipt_wait: Duration,
}

#[derive(Clone, Debug)]
pub struct WebPush {
    pub hosts: Vec<PushHost>,
}

#[derive(Clone, Debug)]
pub struct Webhooks {
    pub timeout: Duration,
    pub retry_schedule: Vec<Duration>,
}

#[derive(Clone, Debug)]
pub struct Outbound {
    pub allow_private: bool,
}

#[derive(Clone, Debug)]
pub struct Log {
    pub format: LogFormat,
    pub level: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Json,
    Text,
}

impl FromStr for LogFormat {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "json" => Ok(Self::Json),
            "text" => Ok(Self::Text),
            _ => Err(()),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Otlp {
    pub endpoint: Option<ServerUrl>,
}

impl Config {
    /// Reads the file at `path` or, if `path` is None, the file that `TIDINGS_CONFIG` names, if any. Environment variables override the
    /// file; `deploy/config/tidings.toml` describes every key and the names of variables.
    ///
    /// # Errors
    /// Lists all unknown keys and invalid values.
    pub fn load(path: Option<&Path>) -> Result<Config, ConfigError> {
        Self::from_sources(path, std::env::vars_os())
    }

    /// Reads `variables` in place of the environment variables.
    pub fn from_sources(
        path: Option<&Path>,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Config, ConfigError> {
        Self::from_sources_over([], path, variables)
    }

    /// Reads `variables` in place of the environment variables. `defaults` are variables that the file and `variables` override.
    pub fn from_sources_over(
        defaults: impl IntoIterator<Item = (OsString, OsString)>,
        path: Option<&Path>,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Config, ConfigError> {
        let variables: Vec<_> = variables.into_iter().filter(|(_, value)| !value.is_empty()).collect();
        let named =
            variables.iter().find(|(name, _)| name == FILE_VARIABLE).map(|(_, value)| Path::new(value));
        let mut settings = Settings::default();
        settings.add_variables(&defaults.into_iter().collect::<Vec<_>>());
        if let Some(path) = path.or(named) {
            settings.add_file(path)?;
        }
        settings.add_variables(&variables);
        let config = Self::read(&mut settings);
        settings.finish()?;
        Ok(config)
    }

    fn read(settings: &mut Settings) -> Config {
        let streams = Streams {
            partitions: settings.number("streams.partitions", 4, 1..=64),
            partitions_are_set: settings.is_set("streams.partitions"),
            retention: settings.duration("streams.retention", 7 * DAY, MINUTE..=365 * DAY),
        };
        let delivery = delivery(settings);
        let config = Config {
            header_prefixes: header_prefixes(settings),
            database: Database {
                url: settings.url("database.url", &["postgres", "postgresql"]),
                max_connections: settings.number("database.max_connections", 16, 2..=1_000),
            },
            nats: Nats::read(settings),
            sends: Sends::read(settings, &streams, &delivery),
            inbox: Inbox::read(settings),
            streams,
            gateway: gateway(settings),
            console: Console::read(settings),
            metrics: Metrics { listen: settings.address("metrics.listen", local(9090)) },
            security: security(settings),
            delivery,
            web_push: web_push(settings),
            webhooks: webhooks(settings),
            outbound: Outbound { allow_private: settings.flag("outbound.allow_private", false) },
            log: log(settings),
            otlp: Otlp { endpoint: settings.url("otlp.endpoint", &["http", "https"]) },
        };
        if config.gateway.listen == config.metrics.listen && config.gateway.listen.port() != 0 {
            let address = config.metrics.listen.to_string();
            settings.refuse(
                "metrics.listen",
                Some(address),
                "is the same as gateway.listen; give it another port",
            );
        }
        config
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::read(&mut Settings::default())
    }
}

fn header_prefixes(settings: &mut Settings) -> Vec<String> {
    const KEY: &str = "header_prefixes";
    let prefixes = settings.list(
        KEY,
        vec!["X-SERVICE".to_owned()],
        |text| {
            let usable = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            (usable && !text.is_empty() && !text.ends_with('-')).then(|| text.to_owned())
        },
        "letters, digits and hyphens, without the last hyphen, such as X-SERVICE",
    );
    let mut seen: Vec<String> = prefixes.iter().map(|prefix| prefix.to_ascii_lowercase()).collect();
    seen.sort_unstable();
    seen.dedup();
    if seen.len() != prefixes.len() {
        settings.refuse(
            KEY,
            Some(prefixes.join(",")),
            "names a prefix twice (capitals do not matter); remove one",
        );
    }
    prefixes
}

fn gateway(settings: &mut Settings) -> Gateway {
    Gateway {
        listen: settings.address("gateway.listen", local(8080)),
        public_url: settings.url("gateway.public_url", &["http", "https"]),
        trusted_proxies: settings.list_or_none(
            "gateway.trusted_proxies",
            |text| text.parse().ok(),
            "addresses or networks of proxies, such as 10.0.0.0/8",
        ),
        connections: settings.number("gateway.connections", CONNECTIONS, 16..=1_000_000),
        rate_limit: settings.number("gateway.rate_limit", RATE_LIMIT, 1..=1_000_000),
        user_rate_limit: settings.number("gateway.user_rate_limit", USER_RATE_LIMIT, 1..=1_000_000),
        peer_rate_limit: settings.number("gateway.peer_rate_limit", PEER_RATE_LIMIT, 1..=1_000_000),
        refusal_rate_limit: settings.number("gateway.refusal_rate_limit", REFUSAL_RATE_LIMIT, 1..=1_000_000),
        token_lifetime: settings.duration("gateway.token_lifetime", 90 * DAY, MINUTE..=3_650 * DAY),
        transactional_rate: settings.number("gateway.transactional_rate", TRANSACTIONAL_RATE, 1..=1_000_000),
        waiting_room: settings.number("gateway.waiting_room", WAITING_ROOM, 1..=100_000),
        realtime: settings.flag("gateway.realtime", true),
        realtime_connections: settings.number(
            "gateway.realtime_connections",
            REALTIME_CONNECTIONS,
            1..=1_000_000,
        ),
        drain: settings.duration("gateway.drain", DRAIN, Duration::ZERO..=LONGEST_DRAIN),
    }
}

fn security(settings: &mut Settings) -> Security {
    Security {
        master_key_file: settings.path("security.master_key_file"),
        previous_master_key_file: settings.path("security.previous_master_key_file"),
        lost_master_keys: settings.list_or_none(
            "security.lost_master_keys",
            |text| {
                let is_id = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
                is_id.then(|| text.to_ascii_lowercase())
            },
            "ids of master keys, 16 hexadecimal digits each, as `tidings master-key status` shows them",
        ),
    }
}

fn delivery(settings: &mut Settings) -> Delivery {
    Delivery {
        lease: settings.duration(
            "delivery.lease",
            Duration::from_secs(90),
            Duration::from_secs(3)..=60 * MINUTE,
        ),
        ack_wait: settings.duration("delivery.ack_wait", MINUTE, Duration::from_secs(5)..=60 * MINUTE),
        retry_schedule: delays(settings, "delivery.retry_schedule", &RETRY_SCHEDULE),
        max_concurrency: settings.number("delivery.max_concurrency", 32, 1..=1_000),
        receipt_wait: settings.duration("delivery.receipt_wait", 3 * DAY, MINUTE..=30 * DAY),
    }
}

/// `default` is in seconds.
fn delays(settings: &mut Settings, key: &'static str, default: &[u64]) -> Vec<Duration> {
    settings.list(
        key,
        default.iter().copied().map(Duration::from_secs).collect(),
        |text| humantime::parse_duration(text).ok().filter(|delay| *delay <= 7 * DAY),
        "times with a unit, each at most 7days, such as 0s,5s,30s",
    )
}

fn webhooks(settings: &mut Settings) -> Webhooks {
    let range = Duration::from_secs(1)..=LONGEST_WEBHOOK;
    Webhooks {
        timeout: settings.duration("webhooks.timeout", Duration::from_secs(15), range),
        retry_schedule: delays(settings, "webhooks.retry_schedule", &WEBHOOK_RETRY_SCHEDULE),
    }
}

fn web_push(settings: &mut Settings) -> WebPush {
    let wanted =
        "names of hosts, such as fcm.googleapis.com, names after *. for all hosts below them, or origins";
    WebPush { hosts: settings.list("web_push.hosts", PushHost::known(), |text| text.parse().ok(), wanted) }
}

fn log(settings: &mut Settings) -> Log {
    Log {
        format: settings.one("log.format", LogFormat::Json, |text| text.parse().ok(), "json or text"),
        level: settings.one(
            "log.level",
            "info".to_owned(),
            |text| log_filter::is_usable(text).then(|| text.to_owned()),
            "error, warn, info, debug or trace, or directives such as info,sqlx=warn",
        ),
    }
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}
