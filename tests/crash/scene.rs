//! The system as the workload and the checker see it: addresses, files, and the faults with their times.

use std::path::PathBuf;

use domain::Channel;
use event_log::EventLog;
use service_kit::{Config, connections};
use suite::{App, Environment};

/// The system under test, from outside.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    /// Determines everything random in the run.
    pub(crate) seed: u64,
    /// Origins of the gateways, without `/v3`.
    pub(crate) gateways: Vec<String>,
    /// The apps, the largest first.
    pub(crate) apps: Vec<App>,
    /// URL of PostgreSQL, without a proxy.
    pub(crate) database_url: String,
    /// URL of nats-server, without a proxy.
    pub(crate) nats_url: String,
    /// Partitions of the inbox.
    pub(crate) partitions: u32,
    /// Endpoints at the push service's stand-in begin with this.
    pub(crate) push_origin: String,
    /// File of accepted calls, one [`Accepted`] a line, written before the provider answers.
    pub(crate) accepted: PathBuf,
    /// File of the faults of providers, one name a line.
    pub(crate) provider_faults: PathBuf,
    /// File of webhooks that the apps' backends accepted, written before they answer.
    pub(crate) webhooks: PathBuf,
    /// Directory of the clients' journal.
    pub(crate) journals: PathBuf,
    /// Environment of every process and command.
    pub(crate) environment: Environment,
}

impl Scene {
    /// Connects to the log without a proxy.
    pub(crate) async fn event_log(&self) -> EventLog {
        let mut config = Config::default();
        config.nats.url = Some(self.nats_url.parse().unwrap());
        connections::event_log(&config, connections::CONNECTED_WITHIN).await.unwrap()
    }
}

/// A call that a provider accepted.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Accepted {
    /// Milliseconds since 1970.
    pub(crate) at: i64,
    pub(crate) channel: Channel,
    /// The delivery's id that the provider received.
    pub(crate) delivery: String,
    /// Address, token or endpoint.
    pub(crate) target: String,
}

/// A fault that was injected into the system.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct Fault {
    /// Kind and victim: `kill email-2`, `after_claim sms-1`, `pause inbox-1`, `cut`, `withhold acks`, `stop postgres`.
    pub(crate) what: String,
    /// Milliseconds since 1970.
    pub(crate) from: i64,
    /// End: the process is ready again or resumed, or the connections are open.
    pub(crate) until: i64,
}
