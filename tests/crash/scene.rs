//! What the workload and the checker see of the system under test: addresses, files, and what was done to it when.

use std::path::PathBuf;

use domain::{AppId, Channel};
use event_log::EventLog;
use service_kit::{Config, connections};

/// The system under test, from outside.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    /// Everything random in the run comes from it.
    pub(crate) seed: u64,
    /// Origins of the gateways, without `/v3`.
    pub(crate) gateways: Vec<String>,
    /// The apps, the largest first.
    pub(crate) apps: Vec<App>,
    /// PostgreSQL itself, past the proxy.
    pub(crate) database_url: String,
    /// The broker itself, past the proxy.
    pub(crate) nats_url: String,
    /// Partitions of the inbox.
    pub(crate) partitions: u32,
    /// Endpoints at the push service's stand-in begin with this.
    pub(crate) push_origin: String,
    /// The file of accepted calls, one [`Accepted`] a line, written before the provider answers.
    pub(crate) accepted: PathBuf,
    /// The file of what went wrong at the providers, a name a line.
    pub(crate) provider_faults: PathBuf,
    /// The file of webhooks that the apps' backends took, written before they answer.
    pub(crate) webhooks: PathBuf,
    /// Where the clients keep their journals.
    pub(crate) journals: PathBuf,
    /// The environment of every service and of `tidings`.
    pub(crate) environment: Vec<(String, String)>,
}

impl Scene {
    /// The log, past the proxy.
    pub(crate) async fn event_log(&self) -> EventLog {
        let mut config = Config::default();
        config.nats.url = Some(self.nats_url.parse().unwrap());
        connections::event_log(&config, connections::CONNECTED_WITHIN).await.unwrap()
    }
}

/// An app and its credentials.
#[derive(Clone, Debug)]
pub(crate) struct App {
    pub(crate) id: AppId,
    pub(crate) key: String,
    pub(crate) secret: String,
}

/// A call that a provider accepted.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Accepted {
    /// Milliseconds since 1970.
    pub(crate) at: i64,
    pub(crate) channel: Channel,
    /// The delivery's id, as the provider was given it.
    pub(crate) delivery: String,
    /// Address, token or endpoint.
    pub(crate) target: String,
}

/// Something that was done to the system.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct Fault {
    /// What, and to whom: `kill email-2`, `after_claim sms-1`, `pause inbox-1`, `cut`, `withhold acks`, `stop postgres`.
    pub(crate) what: String,
    /// Milliseconds since 1970.
    pub(crate) from: i64,
    /// When it was undone: the process is up again, or goes on; the connections are open.
    pub(crate) until: i64,
}
