//! An installation in which nothing happens but what a test does.

use std::path::PathBuf;
use std::process::Command;

use credentials::MasterKey;
use event_log::EventLog;
use local_servers::NatsServer;
use service_kit::{Config, connections};
use tempfile::TempDir;
use testkit::Database;

/// An empty installation, and the commands that operators have for it.
pub(crate) struct Installation {
    pub(crate) database: Database,
    nats: NatsServer,
    files: TempDir,
    master_key: String,
}

impl Installation {
    pub(crate) async fn start() -> Installation {
        let files = tempfile::Builder::new().prefix("tidings-refusals-").tempdir().unwrap();
        let (database, nats) = (Database::create().await, NatsServer::start().await.unwrap());
        let key = files.path().join("master.key");
        MasterKey::generate_file(&key).unwrap();
        let master_key = key.to_str().unwrap().to_owned();
        let installation = Installation { database, nats, files, master_key };
        installation.accepts(&installation.database, &["migrate"]);
        installation
    }

    pub(crate) fn environment<'a>(&'a self, database: &'a Database) -> [(&'a str, &'a str); 6] {
        [
            ("TIDINGS_CONFIG", ""),
            ("TIDINGS_DATABASE__URL", database.url()),
            ("TIDINGS_NATS__URL", self.nats.url()),
            ("TIDINGS_STREAMS__PARTITIONS", "1"),
            ("TIDINGS_METRICS__LISTEN", "127.0.0.1:0"),
            ("TIDINGS_SECURITY__MASTER_KEY_FILE", &self.master_key),
        ]
    }

    /// Whether `tidings` does it on this database, and what it says.
    fn run(&self, database: &Database, arguments: &[&str]) -> (bool, String) {
        let mut command = Command::new(testkit::binary("tidings"));
        let output = command.args(arguments).envs(self.environment(database)).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(said).unwrap())
    }

    /// What it says.
    pub(crate) fn accepts(&self, database: &Database, arguments: &[&str]) -> String {
        let (done, said) = self.run(database, arguments);
        assert!(done, "{arguments:?}: {said}");
        said
    }

    pub(crate) fn refuses(&self, database: &Database, arguments: &[&str], because: &str) {
        let (done, said) = self.run(database, arguments);
        assert!(!done && said.contains(because), "{arguments:?}: {said}");
    }

    pub(crate) fn dump(&self) -> PathBuf {
        let path = self.files.path().join("tidings.dump");
        self.database.dump(&path).unwrap();
        path
    }

    pub(crate) async fn log(&self) -> EventLog {
        let mut config = Config::default();
        config.nats.url = Some(self.nats.url().parse().unwrap());
        connections::event_log(&config, connections::CONNECTED_WITHIN).await.unwrap()
    }
}
