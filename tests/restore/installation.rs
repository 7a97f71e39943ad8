//! An installation without services, and the commands that operators run on its database or another one.

use std::path::PathBuf;

use event_log::EventLog;
use service_kit::connections;
use suite::Environment;
use testkit::{Database, Servers};

pub(crate) struct Installation {
    pub(crate) database: Database,
    servers: Servers,
}

impl Installation {
    pub(crate) async fn start() -> Installation {
        let database = Database::create().await;
        let servers = Servers::start_on(database.url()).await;
        let installation = Installation { database, servers };
        installation.accepts(&installation.database, &["migrate"]);
        installation
    }

    pub(crate) fn environment(&self, database: &Database) -> Environment {
        let changed = [("TIDINGS_DATABASE__URL", database.url()), ("TIDINGS_STREAMS__PARTITIONS", "1")];
        Environment::default().with(self.servers.environment()).with(changed)
    }

    /// Runs `tidings` on a database. Returns true if it succeeds, and its output.
    fn run(&self, database: &Database, arguments: &[&str]) -> (bool, String) {
        let output = self.environment(database).run("tidings", arguments);
        let printed = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(printed).unwrap())
    }

    /// Runs `tidings`, which must succeed, and returns its output.
    pub(crate) fn accepts(&self, database: &Database, arguments: &[&str]) -> String {
        let (succeeds, printed) = self.run(database, arguments);
        assert!(succeeds, "{arguments:?}: {printed}");
        printed
    }

    pub(crate) fn refuses(&self, database: &Database, arguments: &[&str], because: &str) {
        let (succeeds, printed) = self.run(database, arguments);
        assert!(!succeeds && printed.contains(because), "{arguments:?}: {printed}");
    }

    pub(crate) fn dump(&self) -> PathBuf {
        let path = self.servers.directory().join("tidings.dump");
        self.database.dump(&path).unwrap();
        path
    }

    pub(crate) async fn log(&self) -> EventLog {
        connections::event_log(&self.servers.config(), connections::CONNECTED_WITHIN).await.unwrap()
    }
}
