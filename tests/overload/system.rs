//! The system with an SMTP server and an app, with low limits.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use domain::Lane;
use serde_json::{Value, json};
use service_kit::metrics::DISPATCH_PAUSED;
use stand_ins::outbox::Outbox;
use stand_ins::providers::Providers;
use suite::{App, Name, Role, system};
use testkit::Servers;

use crate::generator::Request;

const APP: &str = "shop";
/// Capacity of the outbox, larger than the number of emails in a run.
const KEPT_EMAILS: usize = 2_000_000;

pub(crate) struct System {
    pub(crate) outbox: Arc<Outbox>,
    app: App,
    system: suite::System,
    _providers: Providers,
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
    /// Starts these services with `settings`.
    pub(crate) async fn start(roles: &[Role], settings: &[(&str, &str)]) -> System {
        service_kit::install_crypto_provider();
        let servers = Servers::start().await;
        let outbox = Outbox::in_directory(servers.directory(), KEPT_EMAILS).unwrap();
        let providers = Providers::start(Arc::clone(&outbox)).await.unwrap();
        let settings = [("TIDINGS_LOG__LEVEL", "error")].iter().chain(settings).copied();
        let mut system = suite::System::prepare(servers, system::addresses(1), settings).await;
        let app = system.create_app(APP, &[providers.smtp_document()]);
        system.start(roles);
        system.ready().await;
        System { outbox, app, system, _providers: providers }
    }

    /// Returns true if the dispatcher reports that it has paused the lane because the streams of jobs are nearly full.
    pub(crate) async fn is_dispatch_paused(&self, lane: Lane) -> bool {
        let dispatcher = self.process(Name { role: Role::Dispatcher, number: 1 });
        dispatcher.has_metric(&self.client, &format!("{DISPATCH_PAUSED}{{lane=\"{lane}\"}} 1")).await
    }

    /// Sets switches of the app. The gateway may apply them only seconds later.
    pub(crate) fn set_app(&self, switches: &[&str]) {
        self.environment.tidings(&[&["app", "set", APP], switches].concat());
    }

    /// Request that makes a send of the app.
    pub(crate) fn request(&self) -> Request {
        self.request_of(&self.app)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.gateways[0].parse().unwrap()
    }

    /// Creates an app in which the public key is enough to act for users. Returns a request that makes a send of this app.
    pub(crate) fn another_app(&self, name: &str) -> Request {
        let app = App::read(&self.environment.tidings(&["app", "create", name, "--json"]));
        self.environment.tidings(&["app", "set", name, "secure-mode=off"]);
        self.request_of(&app)
    }

    fn request_of(&self, app: &App) -> Request {
        let url = format!("{}/v3/notifications", self.origins()[0]);
        Request { url, key: app.key.clone(), secret: app.secret.clone() }
    }

    /// Creates users with these identifiers and an email address.
    pub(crate) async fn create_people(&self, people: &[String]) {
        let request = Request { url: format!("{}/v3/users/bulk", self.origins()[0]), ..self.request() };
        for people in people.chunks(500) {
            let users: Vec<Value> = people
                .iter()
                .map(|name| json!({"identifier": name, "profile": {"email": format!("{name}@example.com")}}))
                .collect();
            let answer = request.send(&self.client, &json!(users)).await;
            assert_eq!(answer.status(), 200, "{}", answer.text().await.unwrap());
        }
    }

    /// Peak memory of each process, in MiB. Fails if a process has ended.
    pub(crate) fn most_memory(&mut self) -> BTreeMap<&'static str, u64> {
        self.assert_running();
        let processes = self.processes.iter_mut();
        processes.map(|process| (process.name.role.as_str(), process.most_memory() / 1024 / 1024)).collect()
    }
}
