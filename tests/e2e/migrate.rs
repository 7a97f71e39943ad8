//! `tidings migrate`: can be repeated and run in two processes at once, and refuses settings that contradict the installation.

use credentials::MasterKey;
use domain::Actor;
use local_servers::NatsServer;
use store::control::app::{NewApp, NewSecret};
use store::{Settings, Store};
use testkit::Database;

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
        self.migrate_with(&[("TIDINGS_STREAMS__PARTITIONS", partitions)])
    }

    fn migrate_with(&self, more: &[(&str, &str)]) -> Answer {
        let variables = [("DATABASE_URL", self.database.url()), ("NATS_URL", self.nats.url())];
        self.directory.run_with(&["migrate"], &[&variables, more].concat(), "")
    }
}

#[tokio::test]
async fn concurrent_migrations_succeed_and_a_third_changes_nothing() {
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

#[tokio::test]
async fn streams_get_the_configured_limit_and_keep_theirs_if_none_is_configured() {
    const LIMIT: &str = "TIDINGS_NATS__MAX_MESSAGES";
    let servers = Servers::start().await;
    assert!(
        !servers.migrate_with(&[]).output.contains("Limit"),
        "new streams already have the configured limit"
    );
    let set = servers.migrate_with(&[(LIMIT, "20000000")]);
    assert_eq!(set.code, 0, "{}", set.errors);
    assert!(set.output.contains("Limit of JOB_sms_bulk: 20000000 messages, was 10000000."), "{}", set.output);
    for limit in ["20000000", ""] {
        let again = servers.migrate_with(&[(LIMIT, limit)]);
        assert_eq!(again.code, 0, "{}", again.errors);
        assert!(!again.output.contains("Limit"), "{}", again.output);
    }
    let replicas = servers.migrate_with(&[("TIDINGS_NATS__REPLICAS", "3")]);
    assert_eq!(replicas.code, 1, "a single server cannot keep replicas: {}", replicas.output);
    assert!(replicas.errors.contains("nats.replicas"), "{}", replicas.errors);
}

#[tokio::test]
async fn existing_apps_get_key_pairs_when_a_master_key_exists() {
    let servers = Servers::start().await;
    let without = servers.migrate_with(&[]);
    assert!(
        without.output.contains("none created, because no master key"),
        "{} {}",
        without.output,
        without.errors
    );
    let settings = Settings { url: servers.database.url().to_owned(), max_connections: 2 };
    let store = Store::connect(&settings).await.unwrap();
    let draft = store
        .control()
        .create_app(NewApp { name: "shop", api_key: "key", development: false }, &Actor::System)
        .await;
    let secret = NewSecret { digest: b"digest", sealed: b"sealed" };
    let app = draft.unwrap().unwrap().commit(secret).await.unwrap();
    assert_eq!(servers.migrate_with(&[]).code, 0);
    assert_eq!(store.control().vapid_public_key(app).await.unwrap(), None);

    MasterKey::generate_file(&servers.directory.path().join("master.key")).unwrap();
    let with_key = [("TIDINGS_SECURITY__MASTER_KEY_FILE", "master.key")];
    let [first, second] = [(); 2].map(|()| servers.migrate_with(&with_key));
    assert_eq!(first.output.matches("1 new").count(), 2, "{} {}", first.output, first.errors);
    assert_eq!(second.code, 0, "{}", second.errors);
    assert!(!second.output.contains("Key"), "{}", second.output);
    assert!(store.control().vapid_public_key(app).await.unwrap().is_some());
    assert!(store.control().link_key(app).await.unwrap().is_some());
}

#[tokio::test]
async fn a_master_key_is_created_once_and_never_if_sealed_secrets_exist() {
    let servers = Servers::start().await;
    let migrate = || {
        let variables = [
            ("DATABASE_URL", servers.database.url()),
            ("NATS_URL", servers.nats.url()),
            ("TIDINGS_SECURITY__MASTER_KEY_FILE", "master.key"),
        ];
        servers.directory.run_with(&["migrate", "--make-master-key"], &variables, "")
    };
    let file = servers.directory.path().join("master.key");
    let first = migrate();
    assert!(first.code == 0 && first.output.contains("Master key: "), "{first:?}");
    let key = std::fs::read(&file).unwrap();
    let second = migrate();
    assert!(second.code == 0 && !second.output.contains("Master key: "), "{second:?}");
    assert_eq!(std::fs::read(&file).unwrap(), key, "the key stays");

    let settings = Settings { url: servers.database.url().to_owned(), max_connections: 2 };
    let store = Store::connect(&settings).await.unwrap();
    let sealed_with = MasterKey::load(&file).unwrap();
    let draft = store
        .control()
        .create_app(NewApp { name: "shop", api_key: "key", development: false }, &Actor::System)
        .await;
    draft.unwrap().unwrap().commit(NewSecret { digest: b"digest", sealed: b"sealed" }).await.unwrap();
    assert_eq!(migrate().code, 0, "migrate creates the app's keys");
    std::fs::remove_file(&file).unwrap();
    let refused = migrate();
    assert!(refused.code == 1 && refused.errors.contains(&sealed_with.id()), "{refused:?}");
    assert!(!file.exists(), "a key was created although secrets are sealed with another one");

    let foreign = MasterKey::generate_file(&file).unwrap().id();
    let refused = migrate();
    assert_eq!(refused.code, 1);
    for id in [foreign, sealed_with.id()] {
        assert!(refused.errors.contains(&id), "{}", refused.errors);
    }
}
