//! The system under test: all services except inbox and webhooks, an app, and eight providers that can fail.

use std::ops::{Deref, DerefMut};

use domain::StreamName;
use event_log::Reader;
use suite::cpu::Processes;
use suite::{Api, Person, Role, claims, system};
use testkit::Servers;

use crate::providers::{Peer, Providers};

const ROLES: [Role; 6] =
    [Role::Gateway, Role::Dispatcher, Role::Email, Role::WebPush, Role::MobilePush, Role::Sms];
/// Factor by which retry delays and the outage of a provider are shorter than in a real installation.
pub(crate) const HASTE: u32 = 10;
/// A shorter form of the default retry schedule. It has enough attempts for deliveries to survive the outage of a provider
/// without being parked.
const SCHEDULE: &str = "0s,500ms,1s,1s,2s,2s,3s,3s,5s,5s";

const APP: &str = "faults";
const SUBSCRIBED_AT_ONCE: usize = 32;

pub(crate) struct System {
    pub(crate) api: Api,
    pub(crate) providers: Providers,
    /// Reader of the outcome events, which continues where the last round ended.
    pub(crate) outcomes: Reader,
    system: suite::System,
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
    pub(crate) async fn start(seed: u64) -> System {
        let (servers, providers) = (Servers::start().await, Providers::start(seed).await);
        let settings = [
            ("TIDINGS_DELIVERY__RETRY_SCHEDULE", SCHEDULE.to_owned()),
            ("TIDINGS_WEB_PUSH__HOSTS", providers.push_service_url()),
        ];
        let mut system = suite::System::prepare(servers, system::addresses(1), settings).await;
        let documents: Vec<_> = providers.peers.iter().map(|peer| peer.document.clone()).collect();
        let app = system.create_app(APP, &documents);
        claims::record(&system.database).await;
        system.start(&ROLES);
        system.ready().await;
        let api = Api::new(&system.origins()[0], &app);
        let outcomes = system.log.reader(StreamName::Outcome, 0);
        System { api, providers, outcomes, system }
    }

    /// Channels that have a provider.
    pub(crate) fn channels(&self) -> Vec<&str> {
        let mut channels: Vec<&str> = self.providers.peers.iter().map(Peer::channel).collect();
        channels.dedup();
        channels
    }

    /// Gives the first SMS provider of a round the highest priority. The others stay enabled, because an attempt with an unknown
    /// outcome can be repeated only at the same provider.
    pub(crate) fn prioritize(&self, round: usize) {
        for document in self.providers.prioritized(round) {
            self.set_provider(APP, &document);
        }
    }

    /// Subscribes a browser for each person.
    pub(crate) async fn subscribe(&self, people: &[Person]) {
        for people in people.chunks(SUBSCRIBED_AT_ONCE) {
            let subscribing = people.iter().map(|person| async {
                self.api.subscribe(&person.identifier(), &self.providers.browser(*person)).await;
            });
            futures_util::future::join_all(subscribing).await;
        }
    }

    /// Processes whose processor time is measured.
    pub(crate) fn measured(&self) -> Vec<(&'static str, Processes)> {
        let services = self.processes.iter();
        let services = services.map(|one| (one.name.role.as_str(), Processes::below(one.service.id())));
        let servers = ["nats-server", "postgres"].map(|name| Some((name, Processes::named(name)?)));
        services.chain(servers.into_iter().flatten()).collect()
    }
}
