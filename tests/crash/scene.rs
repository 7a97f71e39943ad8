//! The system as the workload and the checks see it: addresses, files, and faults with their times.

use std::path::PathBuf;

use domain::Channel;
use event_log::EventLog;
use service_kit::{Config, connections};
use suite::{App, Environment};

/// Addresses and files of the system under test.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    /// Seed of all random decisions of the run.
    pub(crate) seed: u64,
    /// Origins of the gateways, without `/v3`.
    pub(crate) gateways: Vec<String>,
    /// The apps, the largest first.
    pub(crate) apps: Vec<App>,
    /// URL of PostgreSQL itself, not of a proxy.
    pub(crate) database_url: String,
    /// URL of nats-server itself, not of a proxy.
    pub(crate) nats_url: String,
    pub(crate) partitions: u32,
    /// Origin of all push endpoints at the push service's stand-in.
    pub(crate) push_origin: String,
    /// File of accepted calls, with one [`Accepted`] per line. The stand-in writes the line before it answers.
    pub(crate) accepted: PathBuf,
    /// File of the faults of providers, with one name per line.
    pub(crate) provider_faults: PathBuf,
    /// File of webhooks that the apps' backends accepted. A backend writes the line before it answers.
    pub(crate) webhooks: PathBuf,
    pub(crate) journals: PathBuf,
    pub(crate) environment: Environment,
}

impl Scene {
    /// Connects to the event log, not through a proxy.
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
    /// Delivery id that the provider received.
    pub(crate) delivery: String,
    /// Address, number, token or endpoint.
    pub(crate) target: String,
}

/// A fault that was injected into the system.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct Fault {
    /// Kind and victim: `kill email-2`, `after_claim sms-1`, `pause inbox-1`, `cut`, `withhold acks`, `stop postgres`.
    pub(crate) what: String,
    /// Milliseconds since 1970.
    pub(crate) from: i64,
    /// Milliseconds since 1970 at which the process was ready again or resumed, or its connections were open again.
    pub(crate) until: i64,
}
