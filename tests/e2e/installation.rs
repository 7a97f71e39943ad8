//! A database with the current schema and a master key, for the commands of operators.

use std::path::Path;

use credentials::MasterKey;
use serde_json::Value;
use store::{Settings, Store};
use testkit::Database;

use crate::directory::{Answer, Directory};

pub(crate) struct Installation {
    pub(crate) store: Store,
    pub(crate) master_key: MasterKey,
    directory: Directory,
    database: Database,
}

impl Installation {
    pub(crate) async fn create() -> Self {
        let database = Database::with_schema().await;
        let settings = Settings { url: database.url().to_owned(), max_connections: 2 };
        let store = Store::connect(&settings).await.unwrap();
        let directory = Directory::new();
        let master_key = MasterKey::generate_file(&directory.path().join("master.key")).unwrap();
        Installation { store, master_key, directory, database }
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Answer {
        self.run_with_input(arguments, "")
    }

    pub(crate) fn run_with_input(&self, arguments: &[&str], input: &str) -> Answer {
        self.run_configured(arguments, &[], input)
    }

    /// Runs `tidings` with these environment variables in addition to those that every command needs.
    pub(crate) fn run_configured(
        &self,
        arguments: &[&str],
        variables: &[(&str, &str)],
        input: &str,
    ) -> Answer {
        let needed =
            [("DATABASE_URL", self.database.url()), ("TIDINGS_SECURITY__MASTER_KEY_FILE", "master.key")];
        self.directory.run_with(arguments, &[&needed, variables].concat(), input)
    }

    pub(crate) fn database_url(&self) -> &str {
        self.database.url()
    }

    /// Directory in which commands run; its file `master.key` holds the master key.
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Writes a document to a file, and returns the file's path.
    pub(crate) fn file(&self, name: &str, document: &Value) -> String {
        let path = self.directory.path().join(name);
        std::fs::write(&path, document.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    }
}
