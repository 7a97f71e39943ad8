//! The system with two processes of every service, an app with a provider of each kind, and its backend.

use std::ops::{Deref, DerefMut};
use std::path::Path;

use stand_ins::outbox::Outbox;
use stand_ins::providers::Providers;
use stand_ins::webhook::WebhookReceiver;
use suite::{App, Role, system};
use testkit::Servers;

const INSTANCES: usize = 2;
/// Lease and `ack_wait` are longer than a test runs. If a stopping process does not finish or return its work, the test fails.
const PATIENT: [(&str, &str); 2] = [("TIDINGS_DELIVERY__LEASE", "1h"), ("TIDINGS_DELIVERY__ACK_WAIT", "50m")];
const APP: &str = "shop";
/// Capacity of the outbox, larger than the number of messages in a test.
const KEPT: usize = 500_000;

pub(crate) struct System {
    pub(crate) app: App,
    pub(crate) providers: Providers,
    /// The app's backend, which receives webhooks.
    pub(crate) backend: WebhookReceiver,
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
    pub(crate) async fn start() -> System {
        System::start_with(None, &[]).await
    }

    /// Does the same as [`start`](Self::start), with the additional settings `more`, and with the programs in the
    /// directory `programs` or, for None, with those of this workspace.
    pub(crate) async fn start_with(programs: Option<&Path>, more: &[(&str, &str)]) -> System {
        service_kit::install_crypto_provider();
        let servers = Servers::start().await;
        let outbox = Outbox::in_directory(servers.directory(), KEPT).unwrap();
        let (providers, backend) =
            (Providers::start(outbox).await.unwrap(), WebhookReceiver::start().await.unwrap());
        let push_service = providers.push_service.url();
        let settings = PATIENT.into_iter().chain([("TIDINGS_WEB_PUSH__HOSTS", push_service.as_str())]);
        let settings = settings.chain(more.iter().copied());
        let addresses = system::addresses(INSTANCES);
        let mut system = suite::System::prepare_with(programs, servers, addresses, settings).await;
        let documents = providers.documents();
        let used = documents.iter().filter(|document| document["identifier"] != "sms-http");
        let app = system.create_app(APP, &used.cloned().collect::<Vec<_>>());
        backend.trust(&[&system.set_webhook(APP, &backend.url("/tidings"))]);
        system.start(&Role::ALL);
        system.ready().await;
        System { app, providers, backend, system }
    }
}
