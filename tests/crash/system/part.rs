//! A part of the system: a process that can be struck, and its ways to the two servers.

use std::fmt;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use local_servers::{NatsServer, Postgres, port};
use testkit::proxy::Proxy;
use testkit::{Service, binary};

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Role {
    Gateway,
    Dispatcher,
    Email,
    WebPush,
    MobilePush,
    Sms,
    Inbox,
    Webhooks,
}

impl Role {
    pub(crate) const ALL: [Role; 8] = [
        Role::Gateway,
        Role::Dispatcher,
        Role::Email,
        Role::WebPush,
        Role::MobilePush,
        Role::Sms,
        Role::Inbox,
        Role::Webhooks,
    ];
    pub(crate) const WORKERS: [Role; 4] = [Role::Email, Role::WebPush, Role::MobilePush, Role::Sms];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Role::Gateway => "gateway",
            Role::Dispatcher => "dispatcher",
            Role::Email => "email",
            Role::WebPush => "web-push",
            Role::MobilePush => "mobile-push",
            Role::Sms => "sms",
            Role::Inbox => "inbox",
            Role::Webhooks => "webhooks",
        }
    }
}

/// One of the processes: `email-2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Name {
    pub(crate) role: Role,
    /// From 1.
    pub(crate) number: usize,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.role.as_str(), self.number)
    }
}

/// A running part.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) name: Name,
    pub(crate) service: Service,
    /// Its own way to the database.
    pub(crate) database: Proxy,
    /// Its own way to the broker.
    pub(crate) broker: Proxy,
    metrics: String,
    /// Most memory that one of its processes had, in bytes.
    most_memory: u64,
}

impl Part {
    /// Starts it. `environment` is everybody's; the ways to the servers are its own.
    pub(crate) async fn start(
        name: Name,
        environment: &[(String, String)],
        servers: (&Postgres, &NatsServer),
        log: &Path,
    ) -> Part {
        let (postgres, nats) = servers;
        let database = Proxy::start(postgres.port()).await.unwrap();
        let broker = Proxy::start(nats.port()).await.unwrap();
        let metrics = format!("127.0.0.1:{}", port::free().unwrap());
        let by_proxy = |url: &str, port: u16, proxy: &Proxy| {
            url.replace(&format!(":{port}"), &format!(":{}", proxy.port()))
        };
        let of_its_own = [
            ("TIDINGS_DATABASE__URL", by_proxy(postgres.url(), postgres.port(), &database)),
            ("TIDINGS_NATS__URL", by_proxy(nats.url(), nats.port(), &broker)),
            ("TIDINGS_METRICS__LISTEN", metrics.clone()),
        ];
        let everybodys = environment.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let all: Vec<_> =
            everybodys.chain(of_its_own.iter().map(|(name, value)| (*name, value.as_str()))).collect();
        let program = binary(&format!("tidings-{}", name.role.as_str()));
        let service = Service::start_logged(&program, &[], &all, log).unwrap();
        Part { name, service, database, broker, metrics, most_memory: 0 }
    }

    /// Whether it says that it serves.
    pub(crate) async fn is_ready(&self, client: &reqwest::Client) -> bool {
        /// One that was stopped in mid-air must not hold us up.
        const ANSWERED_WITHIN: Duration = Duration::from_millis(500);
        let url = format!("http://{}/readyz", self.metrics);
        let answer = client.get(url).timeout(ANSWERED_WITHIN).send().await;
        answer.is_ok_and(|answer| answer.status().is_success())
    }

    /// How it ended, or None while it runs.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.service.ended().unwrap()
    }

    /// kill -9, and a new start.
    pub(crate) fn restart(&mut self, environment: &[(&str, &str)]) {
        self.note_memory();
        self.service.restart_with(environment).unwrap();
    }

    /// Most memory that one of its processes had so far, in bytes.
    pub(crate) fn most_memory(&mut self) -> u64 {
        self.note_memory();
        self.most_memory
    }

    /// `VmHWM:   12345 kB` of proc(5): the peak of this process. A process that is gone, or another system, has none.
    fn note_memory(&mut self) {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.service.id()));
        let status = status.unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kibibytes = peak.and_then(|peak| peak.trim().trim_end_matches(" kB").parse::<u64>().ok());
        self.most_memory = self.most_memory.max(kibibytes.unwrap_or_default() * 1024);
    }
}
