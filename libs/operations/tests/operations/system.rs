//! An installation with a dispatcher and an inbox projection.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use credentials::link::{Link, Purpose};
use domain::request::{SendRules, parse_send};
use domain::{AppId, Channel, ItemId, Role, SendId};
use operations::apps::creation::{self, PublicAccess};
use operations::sends::submission::{Idempotency, Submission};
use operations::{
    Caller, Grant, Inboxes, MasterKeySource, Operations, ProviderAccount, Publisher, Sends, apps, users,
};
use serde_json::{Value, json};
use service_kit::clock;
use store::control::app::App;
use store::inbox::list::{InboxFilter, PageStart};
use testkit::{Installation, eventually};
use tokio_util::sync::{CancellationToken, DropGuard};

pub(crate) const SOON: Duration = Duration::from_secs(20);

/// The apps `shop` and `other`, and the use cases on running servers.
pub(crate) struct System {
    pub(crate) installation: Installation,
    pub(crate) operations: Operations,
    pub(crate) sends: Sends,
    pub(crate) inboxes: Inboxes,
    pub(crate) shop: App,
    pub(crate) other: App,
    _served: DropGuard,
}

impl System {
    /// Starts the servers, the dispatcher and the projection. Users of both apps need no proof, and the apps guard addresses.
    pub(crate) async fn start() -> System {
        let system = System::without_services().await;
        let context = &system.installation.context;
        context.serve("dispatcher", dispatcher::run);
        context.serve("inbox", inbox::run);
        system
    }

    pub(crate) async fn without_services() -> System {
        let installation = Installation::start(|_| {}).await;
        let context = &installation.context;
        let served = CancellationToken::new();
        let master_key = MasterKeySource::Loaded(context.master_key.clone());
        let operations = Operations::new(context.store.clone(), master_key, false);
        let publisher = Arc::new(Publisher::start(context, &served));
        let sends = Sends::start(context, Arc::clone(&publisher));
        let inboxes = Inboxes::start(context, publisher, &served);
        let (shop, other) = (app(&operations, "shop").await, app(&operations, "other").await);
        System { installation, operations, sends, inboxes, shop, other, _served: served.drop_guard() }
    }

    /// Returns a user of the shop with a proof.
    pub(crate) fn user(&self, identifier: &str) -> Caller {
        Caller::user(&self.shop, identifier.to_owned(), true)
    }

    /// Returns a caller with the public key of the shop only.
    pub(crate) fn unproven(&self, identifier: &str) -> Caller {
        Caller::user(&self.shop, identifier.to_owned(), false)
    }

    /// Returns the user with the same identifier in the other app.
    pub(crate) fn namesake(&self, identifier: &str) -> Caller {
        Caller::user(&self.other, identifier.to_owned(), true)
    }

    pub(crate) fn backend(&self) -> Caller {
        Caller::backend(self.shop.id, Ipv4Addr::LOCALHOST.into())
    }

    pub(crate) fn backend_for(&self, identifier: &str) -> Caller {
        Caller::backend_for(self.shop.id, Ipv4Addr::LOCALHOST.into(), identifier.to_owned())
    }

    pub(crate) fn other_backend(&self) -> Caller {
        Caller::backend(self.other.id, Ipv4Addr::LOCALHOST.into())
    }

    /// Returns an operator with a role in the shop.
    pub(crate) fn operator(&self, role: Role) -> Caller {
        Caller::operator(7, vec![Grant { role, app: Some(self.shop.id) }])
    }

    /// Returns the provider `main` of the shop.
    pub(crate) fn provider(&self) -> Caller {
        let identifier = "main".to_owned();
        Caller::provider(ProviderAccount { app: self.shop.id, channel: Channel::Sms, identifier })
    }

    /// Returns the holder of a link that was sent to a user of the shop.
    pub(crate) async fn link_holder(&self, identifier: &str, purpose: Purpose) -> Caller {
        let directory = self.installation.context.store.directory();
        let user = directory.find_user(self.shop.id, identifier).await.unwrap().unwrap().number;
        Caller::link_holder(Link { app: self.shop.id, user, purpose })
    }

    /// Creates a user of the shop.
    pub(crate) async fn create_user(&self, identifier: &str) {
        let pairs = domain::content::Object::new();
        users::create(&self.operations, &self.backend(), self.shop.id, identifier, pairs).await.unwrap();
    }

    /// Accepts a send of the shop.
    pub(crate) async fn accept(&self, body: Value) -> SendId {
        self.sends.accept(&self.backend(), submission(self.shop.id, body)).await.unwrap()
    }

    /// Sends a notification to a user of the shop, who is created if missing, and returns its item.
    pub(crate) async fn deliver(&self, identifier: &str, title: &str) -> (SendId, ItemId) {
        let pairs = domain::content::Object::new();
        users::merge(&self.operations, &self.backend(), self.shop.id, identifier, pairs).await.unwrap();
        let body = json!({"notification": {"title": title}, "sendTo": {"recipients": [identifier]}});
        let send = self.accept(body).await;
        let caller = self.user(identifier);
        let item = eventually(SOON, "the item is on the list", async || {
            let newest = PageStart::Offset(0);
            let listed = self.inboxes.list(&caller, InboxFilter::default(), newest, 1).await.unwrap();
            let item = listed.page.items.into_iter().next()?;
            item.content.contains(title).then_some(item.id)
        });
        (send, item.await)
    }
}

async fn app(operations: &Operations, name: &str) -> App {
    let admin = Caller::of_command("ada".to_owned());
    creation::create(operations, &admin, name, PublicAccess::Open).await.unwrap();
    apps::find(operations, &admin, name).await.unwrap()
}

/// Reads the body of a send.
pub(crate) fn submission(app: AppId, body: Value) -> Submission {
    let parsed = parse_send(body, SendRules { now: clock::now(), strict: false }).unwrap();
    Submission {
        app,
        send: Box::new(parsed.send),
        files: parsed.files,
        transactional_rate: None,
        volume_limits: Default::default(),
        strict: false,
        untimely: parsed.untimely,
        reject_unknown: parsed.reject_unknown,
        idempotency: None,
    }
}

/// Gives a submission an idempotency key. `body` stands for the digest of the body.
pub(crate) fn keyed(submission: Submission, key: &str, body: u8) -> Submission {
    let idempotency = Some(Idempotency { key: key.to_owned(), body_hash: [body; 32] });
    Submission { idempotency, ..submission }
}
