//! The system under test: two processes of every service, each with its own proxies to PostgreSQL and nats-server. It is set up
//! with the commands that operators use.

pub(crate) mod files;
mod setup;

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use local_servers::Postgres;
use stand_ins::webhook::WebhookReceiver;
use suite::{Name, Role, system};
use testkit::proxy::Proxy;
use testkit::{Servers, Service};

use crate::scene::Scene;
use files::Files;

/// Number of processes of each service.
const INSTANCES: usize = 2;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Seed of all random decisions of the run.
    pub(crate) seed: u64,
    pub(crate) apps: usize,
    /// Factor by which leases and other short times of the processes are stretched on a slow machine; 1 on a fast one.
    pub(crate) patience: f64,
}

/// The proxies of one process.
pub(crate) struct Links {
    pub(crate) database: Proxy,
    pub(crate) broker: Proxy,
}

pub(crate) struct System {
    pub(crate) scene: Scene,
    system: suite::System,
    pub(crate) links: BTreeMap<Name, Links>,
    providers: Service,
    _backends: WebhookReceiver,
    pub(crate) postgres: Postgres,
    pub(crate) files: Files,
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
    /// Starts everything, and waits until every process is ready.
    pub(crate) async fn start(settings: Settings) -> System {
        let files = Files::create(settings.seed);
        let postgres = Postgres::start_fast(&files.path("postgres")).await.unwrap();
        let servers = Servers::start_in(files.directory(), postgres.url()).await;
        let (stand_ins, providers) = setup::providers(settings, &files).await;
        let gateways = system::addresses(INSTANCES);
        let configured = setup::settings(settings, &files, &providers, &format!("http://{}", gateways[0]));
        let mut system = suite::System::prepare(servers, gateways, configured).await;
        let backends = setup::backends(settings.seed, &files).await;
        let apps = setup::apps(settings.apps, &system, &providers, &backends);
        let mut links = BTreeMap::new();
        for role in Role::ALL {
            for number in 1..=INSTANCES {
                let name = Name { role, number };
                links.insert(name, start_linked(&mut system, name, &postgres, &files).await);
            }
        }
        let scene = Scene {
            seed: settings.seed,
            gateways: system.origins(),
            apps,
            database_url: postgres.url().to_owned(),
            nats_url: system.servers.nats.url().to_owned(),
            partitions: system.partitions,
            push_origin: providers.push_origin,
            accepted: files.path("accepted.jsonl"),
            provider_faults: files.path("faults.txt"),
            webhooks: files.path(setup::WEBHOOKS),
            journals: files.path("journals"),
            environment: system.environment.clone(),
        };
        system.ready().await;
        System { scene, system, links, providers: stand_ins, _backends: backends, postgres, files }
    }

    /// # Panics
    /// A process that should be running has ended.
    pub(crate) fn assert_all_running(&mut self) {
        self.assert_running();
        self.assert_providers_running();
    }

    /// # Panics
    /// The stand-ins of providers have ended.
    pub(crate) fn assert_providers_running(&mut self) {
        assert!(self.providers.is_running().unwrap(), "the providers ended; {}", self.providers.last_words());
    }
}

/// Starts a process with its own proxies to the servers.
async fn start_linked(system: &mut suite::System, name: Name, postgres: &Postgres, files: &Files) -> Links {
    let nats = &system.servers.nats;
    let database = Proxy::start(postgres.port()).await.unwrap();
    let broker = Proxy::start(nats.port()).await.unwrap();
    let by_proxy =
        |url: &str, port: u16, proxy: &Proxy| url.replace(&format!(":{port}"), &format!(":{}", proxy.port()));
    let urls = [
        ("TIDINGS_DATABASE__URL", by_proxy(postgres.url(), postgres.port(), &database)),
        ("TIDINGS_NATS__URL", by_proxy(nats.url(), nats.port(), &broker)),
    ];
    system.start_process(name, urls, Some(&files.log(&name.to_string())));
    Links { database, broker }
}
