use event_log::EventLog;
use local_servers::NatsServer;

use crate::world::settings;

#[tokio::test]
async fn user_and_password_of_the_address_are_used() {
    let files = tempfile::tempdir().unwrap();
    let server = NatsServer::start_in(files.path()).await.unwrap();
    assert!(server.url().contains("tidings:"), "the test needs a server that asks for a password");

    let log = EventLog::connect(settings(server.url())).await.unwrap();
    log.ping().await.unwrap();

    let (start, address) = server.url().split_once('@').unwrap();
    for login in [format!("{start}%00@"), "nats://".to_owned(), "nats://token@".to_owned()] {
        assert!(EventLog::connect(settings(&format!("{login}{address}"))).await.is_err(), "{login}");
    }
}
