//! `tidings healthcheck` and `tidings run`, as a container uses them.

use std::time::Duration;

use credentials::MasterKey;
use local_servers::{NatsServer, port};
use testkit::{Database, Service, eventually};

use crate::directory::Directory;

const WITHIN: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_service_is_healthy_when_ready_and_stays_alive_without_its_servers() {
    let (database, mut nats) = (Database::create().await, NatsServer::start().await.unwrap());
    let directory = Directory::new();
    let key = directory.path().join("master.key");
    MasterKey::generate_file(&key).unwrap();
    let nats_url = nats.url().to_owned();
    let listen = format!("0.0.0.0:{}", port::free().unwrap());
    let variables = [
        ("DATABASE_URL", database.url()),
        ("NATS_URL", nats_url.as_str()),
        ("TIDINGS_SECURITY__MASTER_KEY_FILE", key.to_str().unwrap()),
        ("TIDINGS_METRICS__LISTEN", &listen),
    ];
    assert_eq!(directory.run_with(&["migrate"], &variables, "").code, 0);
    let check = |arguments: &[&str]| directory.run_with(arguments, &variables, "");
    let nobody = check(&["healthcheck", "--timeout", "1s"]);
    assert!(nobody.code == 1 && nobody.errors.contains("no answer"), "{nobody:?}");

    let service = Service::start("tidings", &["run", "dispatcher"], &variables).unwrap();
    eventually(WITHIN, "the service is ready", async || (check(&["healthcheck"]).code == 0).then_some(()))
        .await;
    let metrics = format!("http://127.0.0.1:{}/metrics", listen.rsplit_once(':').unwrap().1);
    let metrics = reqwest::get(metrics).await.unwrap().text().await.unwrap();
    for metric in [
        "tidings_build_info{service=\"tidings-dispatcher\",version=\"",
        "tidings_database_connections{state=\"used\"}",
        "tidings_database_connections_max 16",
        "process_resident_memory_bytes ",
        "process_cpu_seconds_total ",
        "process_open_fds ",
    ] {
        assert!(metrics.lines().any(|line| line.starts_with(metric)), "{metric}\nis not in\n{metrics}");
    }

    let status = std::fs::read_to_string(format!("/proc/{}/status", service.id())).unwrap();
    let uses_huge_pages = status.lines().find_map(|line| line.strip_prefix("THP_enabled:"));
    assert_eq!(uses_huge_pages.map(str::trim), Some("0"), "huge pages would waste memory");

    nats.kill();
    eventually(WITHIN, "the service is not ready", async || {
        (check(&["healthcheck"]).code == 1).then_some(())
    })
    .await;
    let alive = check(&["healthcheck", "--live"]);
    assert_eq!(alive.code, 0, "{alive:?}");
    drop(service);
}

#[test]
fn an_invalid_configuration_exits_2() {
    let directory = Directory::new();
    let wrong = [("TIDINGS_METRICS__LISTEN", "everywhere")];
    for arguments in [&["healthcheck"][..], &["run", "email"], &["run", "nothing"]] {
        assert_eq!(directory.run_with(arguments, &wrong, "").code, 2, "{arguments:?}");
    }
}
