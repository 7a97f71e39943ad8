//! Test of a cluster of three servers, one of which hangs.

use std::time::{Duration, Instant};

use event_log::EventLog;
use local_servers::{NatsServer, port};
use testkit::eventually;

use crate::world::{SOON, settings};

/// Time limit for the client's switch to another server. The switch takes 5 s on a fast machine. With the ping interval of a
/// single server, it would take 30 s.
const LEFT_WITHIN: Duration = Duration::from_secs(15);

/// Starts three servers, and returns them with a URL that names all of them.
async fn cluster() -> (Vec<NatsServer>, String) {
    let routes: Vec<u16> = (0..3).map(|_| port::free().unwrap()).collect();
    let urls: Vec<_> = routes.iter().map(|port| format!("nats://127.0.0.1:{port}")).collect();
    let mut servers = Vec::new();
    for port in &routes {
        let settings = format!(
            "cluster {{ name: test, listen: \"127.0.0.1:{port}\", routes: [{}] }}\n",
            urls.iter().map(|url| format!("{url:?}")).collect::<Vec<_>>().join(", ")
        );
        servers.push(NatsServer::start_with(&settings).await.unwrap());
    }
    let url = servers.iter().map(NatsServer::url).collect::<Vec<_>>().join(",");
    (servers, url)
}

#[tokio::test]
async fn a_client_switches_from_a_hanging_server_to_another() {
    let (mut servers, url) = cluster().await;
    let log = EventLog::connect(settings(&url)).await.unwrap();
    eventually(SOON, "the cluster has a leader", async || log.ping().await.ok()).await;
    let name = log.server_name();
    let hung = servers.iter_mut().find(|server| is_called(server, &name)).unwrap();
    hung.pause().unwrap();
    let started = Instant::now();
    eventually(SOON, "another server", async || (log.server_name() != name).then_some(())).await;
    let took = started.elapsed();
    hung.resume().unwrap();
    assert!(took < LEFT_WITHIN, "{took:?}");
}

fn is_called(server: &NatsServer, name: &str) -> bool {
    let log = std::fs::read_to_string(server.log()).unwrap();
    log.lines().any(|line| line.contains(" Name: ") && line.ends_with(name))
}
