//! The store of the log, in bytes.

mod bytes_of_a_send;
mod full;
mod thirty_days;

use local_servers::NatsServer;
use service_kit::Config;
use testkit::Servers;

use crate::service::{Backing, Service};

/// Starts a service whose nats-server stores at most this number of bytes. No setting of Tidings names the number, unless
/// `configure` sets one.
pub(crate) async fn service_with_store(
    bytes: u64,
    behind: Backing,
    configure: impl FnOnce(&mut Config),
) -> Service {
    let mut servers = Servers::start().await;
    servers.nats =
        NatsServer::start_with(&format!("jetstream {{ max_file_store: {bytes} }}\n")).await.unwrap();
    Service::start_as(servers, behind, configure).await
}

/// Returns the fill of the store.
pub(crate) async fn fill(service: &Service) -> f64 {
    service.context.log.store_use().await.unwrap().fill()
}
