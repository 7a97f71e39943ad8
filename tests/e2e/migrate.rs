//! `tidings migrate`: twice, by two processes at once, and never against what is installed.

use testkit::{Database, NatsServer};

use crate::directory::{Answer, Directory};

struct Servers {
    database: Database,
    nats: NatsServer,
    directory: Directory,
}

impl Servers {
    async fn start() -> Self {
        let nats = NatsServer::start().await.unwrap();
        Servers { database: Database::create().await, nats, directory: Directory::new() }
    }

    fn migrate(&self, partitions: &str) -> Answer {
        let variables = [
            ("DATABASE_URL", self.database.url()),
            ("NATS_URL", self.nats.url()),
            ("TIDINGS_STREAMS__PARTITIONS", partitions),
        ];
        self.directory.run_with(&["migrate"], &variables, "")
    }
}

#[tokio::test]
async fn two_at_once_both_succeed_and_a_third_changes_nothing() {
    let servers = Servers::start().await;
    let (first, second) = std::thread::scope(|threads| {
        let first = threads.spawn(|| servers.migrate("2"));
        let second = threads.spawn(|| servers.migrate("2"));
        (first.join().unwrap(), second.join().unwrap())
    });
    assert_eq!(first.code, 0, "{}", first.errors);
    assert_eq!(second.code, 0, "{}", second.errors);
    let third = servers.migrate("2");
    assert_eq!(third.code, 0, "{}", third.errors);
    assert!(
        third.output.contains("as before") && third.output.contains(", 0 of them new"),
        "{}",
        third.output
    );
    assert!(third.output.contains("Inbox partitions: 2"), "{}", third.output);
}

#[tokio::test]
async fn another_number_of_partitions_is_refused() {
    let servers = Servers::start().await;
    assert_eq!(servers.migrate("1").code, 0);
    let refused = servers.migrate("4");
    assert_eq!(refused.code, 1);
    assert!(refused.errors.contains("streams.partitions = 1"), "{}", refused.errors);
}
