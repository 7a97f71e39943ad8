//! The whole of Tidings, every part in a process of its own, set up by the commands that operators use.

pub(crate) mod files;
pub(crate) mod part;
mod setting_up;

use std::collections::BTreeSet;
use std::time::Duration;

use event_log::EventLog;
use local_servers::{NatsServer, Postgres, port};
use reqwest::Client;
use service_kit::{Config, connections};
use sqlx::PgPool;
use stand_ins::webhook::WebhookReceiver;
use testkit::{Service, eventually};

use crate::scene::Scene;
use files::Files;
use part::{Name, Part, Role};
use setting_up::PARTITIONS;

const READY_WITHIN: Duration = Duration::from_secs(60);
/// Of every part.
const INSTANCES: usize = 2;

/// What a run is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Everything random in the run comes from it.
    pub(crate) seed: u64,
    pub(crate) apps: usize,
}

/// The system, running.
pub(crate) struct System {
    pub(crate) scene: Scene,
    pub(crate) log: EventLog,
    pub(crate) database: PgPool,
    pub(crate) parts: Vec<Part>,
    pub(crate) postgres: Postgres,
    pub(crate) nats: NatsServer,
    pub(crate) client: Client,
    providers: Service,
    _backends: WebhookReceiver,
    pub(crate) files: Files,
}

impl System {
    /// Starts everything, and waits until every part says that it serves.
    pub(crate) async fn start(settings: Settings) -> System {
        let files = Files::create(settings.seed);
        let postgres = Postgres::start_fast(&files.path("postgres")).await.unwrap();
        let nats = NatsServer::start_at(&files.path("nats")).await.unwrap();
        let servers = (&postgres, &nats);
        let (stand_ins, providers) = setting_up::providers(settings, &files).await;
        let gateways = addresses(INSTANCES);
        let origin = |address: &String| format!("http://{address}");
        let environment = setting_up::environment(&files, servers, &providers, &origin(&gateways[0]));
        let backends = setting_up::backends(settings.seed, &files).await;
        let apps = setting_up::apps(settings.apps, &environment, &providers, &backends);
        let mut parts = Vec::new();
        for role in Role::ALL {
            for number in 1..=INSTANCES {
                let name = Name { role, number };
                let mut environment = environment.clone();
                environment.push(("TIDINGS_GATEWAY__LISTEN".to_owned(), gateways[number - 1].clone()));
                let log = files.log(&name.to_string());
                parts.push(Part::start(name, &environment, servers, &log).await);
            }
        }
        service_kit::install_crypto_provider();
        let mut config = Config::default();
        config.nats.url = Some(nats.url().parse().unwrap());
        let scene = Scene {
            seed: settings.seed,
            gateways: gateways.iter().map(origin).collect(),
            apps,
            database_url: postgres.url().to_owned(),
            nats_url: nats.url().to_owned(),
            partitions: PARTITIONS,
            push_origin: providers.push_origin,
            accepted: files.path("accepted.jsonl"),
            provider_faults: files.path("faults.txt"),
            webhooks: files.path(setting_up::WEBHOOKS),
            journals: files.path("journals"),
            environment,
        };
        let mut system = System {
            scene,
            log: connections::event_log(&config, READY_WITHIN).await.unwrap(),
            database: PgPool::connect(postgres.url()).await.unwrap(),
            parts,
            postgres,
            nats,
            client: Client::new(),
            providers: stand_ins,
            _backends: backends,
            files,
        };
        system.until_ready().await;
        system
    }

    async fn until_ready(&mut self) {
        for part in &mut self.parts {
            let what = format!("{} serves", part.name);
            eventually(READY_WITHIN, &what, async || {
                assert!(part.ended().is_none(), "{}: {}", part.name, part.service.last_words());
                part.is_ready(&self.client).await.then_some(())
            })
            .await;
        }
    }

    pub(crate) fn part(&mut self, name: Name) -> &mut Part {
        self.parts.iter_mut().find(|part| part.name == name).expect("a part of that name")
    }

    /// Nothing that happens to the others may end a part.
    ///
    /// # Panics
    /// One ended by itself.
    pub(crate) fn assert_running(&mut self) {
        for part in &mut self.parts {
            let ended = part.ended();
            assert!(
                ended.is_none(),
                "{} ended by itself ({ended:?}); {}",
                part.name,
                part.service.last_words()
            );
        }
        self.assert_providers_running();
    }

    /// As [`assert_running`](Self::assert_running), of the stand-ins of providers.
    pub(crate) fn assert_providers_running(&mut self) {
        assert!(self.providers.is_running().unwrap(), "the providers ended; {}", self.providers.last_words());
    }
}

/// So many different addresses that nobody listens at.
fn addresses(number: usize) -> Vec<String> {
    let mut ports = BTreeSet::new();
    while ports.len() < number {
        ports.insert(port::free().unwrap());
    }
    ports.into_iter().map(|port| format!("127.0.0.1:{port}")).collect()
}
