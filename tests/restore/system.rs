//! The system with one process of every service, whose database can be lost and restored.

use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sqlx::PgPool;
use stand_ins::providers::Providers;
use suite::{Api, Role, system};
use testkit::{Database, SERVICES, Servers, eventually};

use crate::providers;

const SOON: Duration = Duration::from_secs(60);
/// Time limit without progress: longer than a lease, an `ack_wait` and the longest delay of a scheduled send together.
const STALLED_AFTER: Duration = Duration::from_secs(60);
/// Identifiers of the providers that the app uses.
const USED: [&str; 4] = ["smtp", "sms-http", "fcm", "vapid"];
const SETTINGS: [(&str, &str); 4] = [
    ("TIDINGS_STREAMS__PARTITIONS", "2"),
    ("TIDINGS_DELIVERY__LEASE", "10s"),
    ("TIDINGS_DELIVERY__ACK_WAIT", "5s"),
    ("TIDINGS_DELIVERY__RETRY_SCHEDULE", "0s,500ms,500ms,1s,1s,1s"),
];

pub(crate) struct System {
    pub(crate) api: Api,
    pub(crate) providers: Providers,
    system: suite::System,
    current: Arc<Database>,
}

impl Deref for System {
    type Target = suite::System;

    fn deref(&self) -> &suite::System {
        &self.system
    }
}

impl DerefMut for System {
    fn deref_mut(&mut self) -> &mut suite::System {
        &mut self.system
    }
}

impl System {
    pub(crate) async fn start() -> System {
        let (current, providers) = (Arc::new(Database::with_schema().await), providers::start().await);
        let servers = Servers::start_on(current.url()).await;
        let push_service = providers.push_service.url();
        let settings = SETTINGS.into_iter().chain([("TIDINGS_WEB_PUSH__HOSTS", push_service.as_str())]);
        let system = suite::System::prepare(servers, system::addresses(1), settings).await;
        let mut documents = providers.documents();
        documents.retain(|document| USED.iter().any(|used| document["identifier"] == *used));
        let app = system.create_app("shop", &documents);
        let api = Api::new(&system.origins()[0], &app);
        let mut system = System { api, providers, system, current };
        system.start_services().await;
        system
    }

    pub(crate) async fn start_services(&mut self) {
        self.processes.clear();
        self.system.start(&Role::ALL);
        self.ready().await;
    }

    pub(crate) fn current_database(&self) -> Arc<Database> {
        Arc::clone(&self.current)
    }

    /// Waits until the database has recorded how far the log has been processed.
    pub(crate) async fn is_marked(&self) {
        eventually(SOON, "the processed positions of the log are recorded", async || {
            let marks = self.count("SELECT count(*) FROM log_mark WHERE seq > 0").await;
            (marks >= 3).then_some(())
        })
        .await;
    }

    /// Waits until no work remains.
    pub(crate) async fn idle(&mut self) {
        self.until_idle(STALLED_AFTER).await;
    }

    /// Kills every service with SIGKILL.
    pub(crate) fn kill_services(&mut self) {
        self.processes.iter_mut().for_each(|process| process.service.kill());
    }

    /// Restores the dump into a new database, and uses it instead of the old one.
    pub(crate) async fn lose_the_database(&mut self, dump: &Path) {
        self.database.close().await;
        self.current = Arc::new(Database::restored(dump).await.unwrap());
        self.database = PgPool::connect(self.current.url()).await.unwrap();
        self.environment = self.environment.with([("TIDINGS_DATABASE__URL", self.current.url())]);
    }

    /// Asserts that every program fails and names `tidings restore` as the command that must run first.
    pub(crate) fn services_refuse_to_start(&self) {
        for program in SERVICES.into_iter().chain(["tidings"]) {
            let arguments = if program == "tidings" { &["migrate"][..] } else { &[] };
            let output = self.environment.run(program, arguments);
            let printed = [output.stdout, output.stderr].concat();
            let printed = String::from_utf8_lossy(&printed);
            assert!(!output.status.success(), "{program} must not start: {printed}");
            assert!(printed.contains("`tidings restore`"), "{program}: {printed}");
        }
    }
}
