//! Every service in a process of its own, set up by the commands that operators use.

use std::collections::BTreeMap;

use credentials::MasterKey;
use domain::StreamName;
use event_log::{EventLog, Reader};
use local_servers::{NatsServer, port};
use serde_json::Value;
use service_kit::{Config, connections};
use sqlx::PgPool;
use tempfile::TempDir;
use testkit::{Database, Service};

use crate::api::Api;
use crate::claims;
use crate::command::tidings;
use crate::cpu::Processes;
use crate::people::Person;
use crate::providers::{Peer, Providers};

const SERVICES: [&str; 6] = [
    "tidings-gateway",
    "tidings-dispatcher",
    "tidings-email",
    "tidings-web-push",
    "tidings-mobile-push",
    "tidings-sms",
];
/// Every time that the service waits by itself is this much shorter than by default, and so is a provider's failure.
pub(crate) const HASTE: u32 = 10;
/// The default schedule up to ten minutes, with some haste. The last delays keep a provider that is down from parking.
const SCHEDULE: &str = "0s,500ms,1s,1s,2s,2s,3s,3s,5s,5s";

const APP: &str = "faults";
const SUBSCRIBED_AT_ONCE: usize = 32;

/// The whole of Tidings without the inbox, running.
pub(crate) struct System {
    pub(crate) api: Api,
    pub(crate) log: EventLog,
    pub(crate) database: PgPool,
    pub(crate) providers: Providers,
    /// Reads on where the last round ended.
    pub(crate) outcomes: Reader,
    environment: Vec<(String, String)>,
    services: BTreeMap<&'static str, Service>,
    _nats: NatsServer,
    _database: Database,
    _files: TempDir,
}

impl System {
    pub(crate) async fn start(seed: u64) -> System {
        let files = tempfile::Builder::new().prefix("tidings-faults-").tempdir().unwrap();
        let (database, nats) = (Database::create().await, NatsServer::start().await.unwrap());
        let providers = Providers::start(seed).await;
        let key_file = files.path().join("master.key");
        MasterKey::generate_file(&key_file).unwrap();
        let api_address = format!("127.0.0.1:{}", port::free().unwrap());
        let mut environment = vec![
            ("TIDINGS_CONFIG", ""),
            ("TIDINGS_DATABASE__URL", database.url()),
            ("TIDINGS_NATS__URL", nats.url()),
            ("TIDINGS_GATEWAY__LISTEN", &api_address),
            ("TIDINGS_METRICS__LISTEN", "127.0.0.1:0"),
            ("TIDINGS_SECURITY__MASTER_KEY_FILE", key_file.to_str().unwrap()),
            ("TIDINGS_OUTBOUND__ALLOW_PRIVATE", "true"),
            ("TIDINGS_DELIVERY__RETRY_SCHEDULE", SCHEDULE),
        ];
        let of_providers = providers.environment();
        environment.extend(of_providers.iter().map(|(name, value)| (*name, value.as_str())));
        let app = set_up(&environment, &providers.peers);
        let pool = PgPool::connect(database.url()).await.unwrap();
        claims::note(&pool).await;
        let start = |program| (program, Service::start(program, &[], &environment).unwrap());
        let services = SERVICES.map(start).into();

        let mut config = Config::default();
        config.nats.url = Some(nats.url().parse().unwrap());
        let log = connections::event_log(&config, connections::CONNECTED_WITHIN).await.unwrap();
        let text = |name: &str| app[name].as_str().unwrap();
        let api = Api::new(&format!("http://{api_address}"), text("apiKey"), text("apiSecret"));
        api.ready().await;
        let outcomes = log.reader(StreamName::Outcome, 0);
        System {
            api,
            log,
            database: pool,
            providers,
            outcomes,
            environment: environment
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            services,
            _nats: nats,
            _database: database,
            _files: files,
        }
    }

    /// The channels that have a provider.
    pub(crate) fn channels(&self) -> Vec<&str> {
        let mut channels: Vec<&str> = self.providers.peers.iter().map(Peer::channel).collect();
        channels.dedup();
        channels
    }

    /// Puts the providers first whose turn it is in a round. The others stay: what one of them may have taken is for it
    /// alone to be asked again.
    pub(crate) fn take_turns(&self, round: usize) {
        let environment: Vec<_> =
            self.environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        for document in self.providers.in_turn(round) {
            tidings(&environment, &["provider", "set", APP], &document.to_string());
        }
    }

    /// Gives everybody a browser.
    pub(crate) async fn subscribe(&self, people: &[Person]) {
        for people in people.chunks(SUBSCRIBED_AT_ONCE) {
            let subscribing = people.iter().map(|person| async {
                self.api.subscribe(&person.identifier(), &self.providers.browser(*person)).await;
            });
            futures_util::future::join_all(subscribing).await;
        }
    }

    /// What processor time is counted of.
    pub(crate) fn processes(&self) -> Vec<(&'static str, Processes)> {
        let own = self.services.iter().map(|(name, service)| (*name, Processes::below(service.id())));
        let servers = ["nats-server", "postgres"].map(|name| Some((name, Processes::named(name)?)));
        own.chain(servers.into_iter().flatten()).collect()
    }

    /// Nothing that happens to providers may end a service.
    pub(crate) fn assert_running(&mut self) {
        for (name, service) in &mut self.services {
            let ended = service.ended().unwrap();
            let log = std::fs::read_to_string(service.log()).unwrap();
            let tail: Vec<&str> = log.lines().rev().take(5).collect();
            assert!(ended.is_none(), "{name} ended by itself ({ended:?}):\n{}", tail.join("\n"));
        }
    }
}

/// Returns the app as `tidings app create` prints it.
fn set_up(environment: &[(&str, &str)], peers: &[Peer]) -> Value {
    tidings(environment, &["migrate"], "");
    let app = tidings(environment, &["app", "create", APP, "--open", "--json"], "");
    for peer in peers {
        tidings(environment, &["provider", "set", APP], &peer.document.to_string());
    }
    serde_json::from_str(&app).unwrap()
}
