use std::time::Duration;

use domain::content::{Content, PushContent};
use domain::event::DeliveryJob;
use domain::{Answer, AppId, Channel, DeliveryId, Lane, Outcome, Timestamp, UserNumber};
use mobile_push::MobilePushSender;
use serde_json::{Value, json};
use service_kit::clock;
use stand_ins::apns::{ApnsSettings, ApnsStandIn};
use stand_ins::fcm::FcmStandIn;
use stand_ins::outbox::Outbox;
use uuid::Uuid;
use worker::{Call, ChannelSender as _, Lease, Outbound, Probe, Provider};

/// 2026-01-02T03:04:05Z
pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_767_323_045_000);
pub(crate) const RETRY: Outcome = Outcome::RETRY;
/// Device token in the format of APNs.
pub(crate) const PHONE: &str = "00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0";
pub(crate) const ANDROID: &str = "bk3RNwTe3H0:CI2k_HHwgIpoDKCIZvvDMExUdFQ3P1";

/// A stand-in, and a sender whose provider is the stand-in.
pub(crate) struct PushWorld<S> {
    pub(crate) server: S,
    pub(crate) sender: MobilePushSender,
    pub(crate) provider: Provider,
    service: &'static str,
}

impl PushWorld<ApnsStandIn> {
    pub(crate) async fn apns() -> Self {
        Self::apns_with(ApnsSettings::default()).await
    }

    pub(crate) async fn apns_with(settings: ApnsSettings) -> Self {
        let server = ApnsStandIn::start(settings, Outbox::in_memory()).await.unwrap();
        server.set_clock(NOW);
        let settings = server.provider_settings();
        PushWorld { server, sender: sender(), provider: provider("apns", settings), service: "apns" }
    }
}

impl PushWorld<FcmStandIn> {
    pub(crate) async fn fcm() -> Self {
        let server = FcmStandIn::start(0, Outbox::in_memory()).await.unwrap();
        server.set_clock(NOW);
        let settings = server.provider_settings();
        PushWorld { server, sender: sender(), provider: provider("fcm", settings), service: "fcm" }
    }
}

impl<S> PushWorld<S> {
    pub(crate) async fn send(&self, token: &str) -> Answer {
        self.send_at(token, NOW).await
    }

    pub(crate) async fn send_at(&self, token: &str, now: Timestamp) -> Answer {
        self.send_job(&self.job(token, content()), now).await
    }

    pub(crate) async fn send_job(&self, job: &DeliveryJob, now: Timestamp) -> Answer {
        let (provider, lane) = (&self.provider, Lane::Transactional);
        let (app, lease) = (provider.app, &Lease::lasting(Duration::from_secs(90)));
        self.sender.send(&Call { app, send_id: None, lane, provider, job, now, lease }, ()).await
    }

    pub(crate) fn job(&self, token: &str, content: PushContent) -> DeliveryJob {
        let id = DeliveryId(Uuid::from_u128(7));
        let target = format!("{}:{token}", self.service);
        DeliveryJob::first(id, Channel::MobilePush, UserNumber(1), target, Content::Push(content))
    }
}

/// Returns the last accepted message, as received.
pub(crate) fn last(outbox: &Outbox) -> Value {
    serde_json::from_slice(&outbox.captures()[0].raw).unwrap()
}

pub(crate) fn sender() -> MobilePushSender {
    sender_within(mobile_push::attempt_limit(Duration::from_secs(90)))
}

pub(crate) fn sender_within(limit: Duration) -> MobilePushSender {
    MobilePushSender::new(Outbound::new(true), limit)
}

pub(crate) fn provider(kind: &str, settings: Value) -> Provider {
    let (app, identifier, kind) = (AppId(1), "main".to_owned(), kind.to_owned());
    Provider { app, identifier, kind, settings, version: 1 }
}

pub(crate) fn content() -> PushContent {
    PushContent {
        title: Some("Your parcel".to_owned()),
        body: Some("It is on its way.".to_owned()),
        url: Some("https://example.com/parcels/7".to_owned()),
        data: json!({"parcel": 7}).as_object().unwrap().clone(),
        ..PushContent::default()
    }
}

pub(crate) fn with_options(options: &Value) -> PushContent {
    PushContent { options: options.as_object().unwrap().clone(), ..content() }
}

pub(crate) fn minutes(count: u64) -> Duration {
    Duration::from_secs(count * 60)
}

/// Tests a provider as `tidings provider test` does.
pub(crate) async fn probe(outbound: Outbound, provider: &Provider) -> Result<String, Answer> {
    let probe = Probe { provider, outbound, now: clock::now(), installation: None };
    worker::probe(mobile_push::KINDS, &probe).await
}

#[track_caller]
pub(crate) fn assert_sent(answer: &Answer) {
    assert!(matches!(answer.outcome, Outcome::Sent { .. }), "{answer:?}");
}
