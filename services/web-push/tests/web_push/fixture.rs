use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use credentials::{link, vapid};
use domain::content::{Content, PushContent};
use domain::event::DeliveryJob;
use domain::web_push::{Subscription, parse_subscription};
use domain::{Answer, AppId, Channel, DeliveryId, Lane, Outcome, SendId, UserNumber};
use serde_json::{Value, json};
use service_kit::{Config, clock};
use stand_ins::http::HttpSettings;
use stand_ins::outbox::Outbox;
use stand_ins::push_service::{Browser, PushServiceStandIn};
use testkit::Installation;
use uuid::Uuid;
use web_push::WebPushSender;
use worker::{Call, ChannelSender as _, Lease, Provider};

pub(crate) const USER: &str = "ada";
pub(crate) const SEND: SendId = SendId(Uuid::from_u128(7));
pub(crate) const PUBLIC_URL: &str = "https://notify.example.com";

/// An installation, an app with a key pair, a stand-in for a push service, and a sender that may call the stand-in.
pub(crate) struct World {
    pub(crate) app: AppId,
    pub(crate) push_service: PushServiceStandIn,
    pub(crate) sender: WebPushSender,
    pub(crate) provider: Provider,
    lease: Lease,
    installation: Installation,
}

impl Deref for World {
    type Target = Installation;

    fn deref(&self) -> &Installation {
        &self.installation
    }
}

impl World {
    pub(crate) async fn start() -> World {
        let world = World::with(|_| {}).await;
        vapid::create(&world.context.store, &world.context.master_key, world.app).await.unwrap();
        world
    }

    /// Creates a world with a changed configuration. Its app has no key pair yet.
    pub(crate) async fn with(configure: impl FnOnce(&mut Config)) -> World {
        let push_service = push_service().await;
        let installation = Installation::start(|config| {
            config.gateway.public_url = Some(PUBLIC_URL.parse().unwrap());
            config.outbound.allow_private = true;
            config.web_push.hosts.push(push_service.url().parse().unwrap());
            configure(config);
        })
        .await;
        let (app, context) = (installation.app("shop").await, &installation.context);
        link::create(&context.store, &context.master_key, app).await.unwrap();
        let settings = json!({"subject": "mailto:push@example.com"});
        let (identifier, kind) = ("browsers".to_owned(), "vapid".to_owned());
        let provider = Provider { app, identifier, kind, settings, version: 1 };
        let sender = WebPushSender::new(context).unwrap();
        let lease = Lease::lasting(Duration::from_secs(3_600));
        World { app, push_service, sender, provider, lease, installation }
    }

    /// Subscribes a browser of [`USER`], and stores the subscription.
    pub(crate) async fn browser(&self) -> Arc<Browser> {
        self.browser_of(USER).await
    }

    /// Subscribes a browser of `user`, and stores the subscription.
    pub(crate) async fn browser_of(&self, user: &str) -> Arc<Browser> {
        let browser = self.push_service.subscribe(None).unwrap();
        self.store(&browser, user, |_| {}).await;
        browser
    }

    pub(crate) async fn store(&self, browser: &Browser, user: &str, change: impl FnOnce(&mut Subscription)) {
        let mut problems = Vec::new();
        let hosts = [self.push_service.url().parse().unwrap()];
        let subscription =
            parse_subscription(browser.subscription(), &hosts, vapid::is_on_curve, true, &mut problems);
        let mut subscription = subscription.unwrap_or_else(|| panic!("{problems:?}"));
        change(&mut subscription);
        let device = browser.endpoint();
        let device = &device[device.len() - 8..];
        self.context.store.directory().subscribe(self.app, user, device, &subscription).await.unwrap();
    }

    pub(crate) async fn user(&self, identifier: &str) -> UserNumber {
        let found = self.context.store.directory().find_user(self.app, identifier).await.unwrap();
        found.map_or(UserNumber(i64::MAX), |user| user.number)
    }

    /// Creates a job for [`USER`].
    pub(crate) async fn job(&self, endpoint: &str, content: PushContent) -> DeliveryJob {
        let (id, user) = (DeliveryId(clock::new_id()), self.user(USER).await);
        DeliveryJob::first(id, Channel::WebPush, user, endpoint.to_owned(), Content::Push(content))
    }

    pub(crate) async fn send(&self, browser: &Browser) -> Answer {
        self.send_job(&self.job(browser.endpoint(), hello()).await).await
    }

    pub(crate) async fn send_to(&self, user: &str, browser: &Browser) -> Answer {
        let job = self.job(browser.endpoint(), hello()).await;
        let user = self.user(user).await;
        self.send_job(&DeliveryJob { user, ..job }).await
    }

    pub(crate) async fn send_job(&self, job: &DeliveryJob) -> Answer {
        self.attempt(&self.call(job)).await
    }

    pub(crate) fn call<'a>(&'a self, job: &'a DeliveryJob) -> Call<'a> {
        let (app, send_id, lane, now) = (self.app, Some(SEND), Lane::Transactional, clock::now());
        Call { app, send_id, lane, provider: &self.provider, job, now, lease: &self.lease }
    }

    pub(crate) async fn attempt(&self, call: &Call<'_>) -> Answer {
        match self.sender.prepare(call.app, call.job).await {
            Ok(browser) => self.sender.send(call, browser).await,
            Err(answer) => answer,
        }
    }

    /// Decrypted messages of all browsers, newest first.
    pub(crate) fn received(&self) -> Vec<Value> {
        let captures = self.push_service.outbox().captures();
        let text = |text: &Option<String>| serde_json::from_str(text.as_deref().unwrap()).unwrap();
        captures.iter().map(|capture| text(&capture.summary.text)).collect()
    }

    /// Value of the header `name` in each message, newest message first.
    pub(crate) fn header(&self, name: &str) -> Vec<String> {
        let captures = self.push_service.outbox().captures();
        captures.iter().map(|capture| capture.summary.headers[name].join(",")).collect()
    }
}

pub(crate) async fn push_service() -> PushServiceStandIn {
    PushServiceStandIn::start(HttpSettings::default(), Outbox::in_memory()).await.unwrap()
}

pub(crate) fn hello() -> PushContent {
    PushContent { title: Some("Hello".to_owned()), ..PushContent::default() }
}

#[track_caller]
pub(crate) fn assert_sent(answer: &Answer) {
    assert!(matches!(answer.outcome, Outcome::Sent { .. }), "{answer:?}");
}
