use std::sync::Arc;
use std::time::Duration;

use domain::content::{Content, SmsContent};
use domain::event::DeliveryJob;
use domain::{Answer, AppId, Channel, DeliveryId, Lane, Outcome, Timestamp, UserNumber};
use serde_json::{Value, json};
use service_kit::{Tasks, clock};
use sms::{Limits, Receipt, SmsSender};
use stand_ins::outbox::{Capture, Outbox};
use stand_ins::sms_http::{SmsHttpStandIn, TOKEN};
use stand_ins::smsc::{SmscSettings, SmscStandIn};
use stand_ins::twilio::{TwilioSettings, TwilioStandIn};
use tokio::sync::mpsc;
use uuid::Uuid;
use worker::{Call, Lease, Outbound, Probe, Provider};

pub(crate) const LIMIT: Duration = Duration::from_secs(20);
pub(crate) const TO: &str = "+4915112345678";
/// 2026-01-02T03:04:05Z
pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_767_323_045_000);
pub(crate) const PUBLIC_URL: &str = "https://notify.example.com";

/// A sender with one provider.
pub(crate) struct Line {
    pub(crate) sender: SmsSender,
    pub(crate) provider: Provider,
    pub(crate) receipts: mpsc::Receiver<Receipt>,
    pub(crate) tasks: Tasks,
}

impl Line {
    pub(crate) fn new(kind: &str, settings: Value) -> Line {
        Line::with(kind, settings, limits())
    }

    pub(crate) fn with(kind: &str, settings: Value, limits: Limits) -> Line {
        let (public_url, tasks) = (Some(PUBLIC_URL.to_owned()), Tasks::new());
        let (sender, receipts) =
            SmsSender::start(Outbound::new(true), public_url, limits, tasks.clone()).unwrap();
        Line { sender, provider: provider(kind, settings), receipts, tasks }
    }

    pub(crate) async fn send(&self, to: &str, text: &str) -> Answer {
        self.send_content(to, SmsContent { text: text.to_owned(), from: None }).await
    }

    pub(crate) async fn send_content(&self, to: &str, content: SmsContent) -> Answer {
        self.send_job(&job(to, content)).await
    }

    pub(crate) async fn send_job(&self, job: &DeliveryJob) -> Answer {
        let Line { sender, provider, .. } = self;
        let (app, lane) = (provider.app, Lane::Transactional);
        let lease = &Lease::lasting(Duration::from_secs(90));
        sender.attempt(&Call { app, send_id: None, lane, provider, job, now: NOW, lease }).await
    }
}

pub(crate) fn provider(kind: &str, settings: Value) -> Provider {
    Provider { app: AppId(1), identifier: "main".to_owned(), kind: kind.to_owned(), settings, version: 1 }
}

pub(crate) fn job(to: &str, content: SmsContent) -> DeliveryJob {
    let id = DeliveryId(Uuid::from_u128(7));
    DeliveryJob::first(id, Channel::Sms, UserNumber(1), to.to_owned(), Content::Sms(content))
}

pub(crate) fn limits() -> Limits {
    Limits::for_lease(Duration::from_secs(90))
}

/// Creates limits with which a test can wait for the timeout of a call.
pub(crate) fn short() -> Limits {
    let short = Duration::from_secs(1);
    Limits { call: short, ..limits() }
}

pub(crate) async fn twilio() -> (TwilioStandIn, Line) {
    twilio_within(limits()).await
}

pub(crate) async fn twilio_within(limits: Limits) -> (TwilioStandIn, Line) {
    let settings = TwilioSettings { reports: false, ..TwilioSettings::default() };
    let server = TwilioStandIn::start(settings, Outbox::in_memory()).await.unwrap();
    let line = Line::with("twilio", twilio_settings(&server), limits);
    (server, line)
}

pub(crate) fn twilio_settings(server: &TwilioStandIn) -> Value {
    let TwilioSettings { account_sid, auth_token, .. } = server.settings();
    json!({"accountSid": account_sid, "authToken": auth_token, "from": "+15005550006", "baseUrl": server.url()})
}

pub(crate) async fn http() -> (SmsHttpStandIn, Line) {
    http_within(limits()).await
}

pub(crate) async fn http_within(limits: Limits) -> (SmsHttpStandIn, Line) {
    let server = SmsHttpStandIn::start(0, Outbox::in_memory()).await.unwrap();
    let line = Line::with("http", http_settings(&server), limits);
    (server, line)
}

pub(crate) fn http_settings(server: &SmsHttpStandIn) -> Value {
    json!({
        "url": format!("{}/messages", server.url()),
        "secretHeaders": {"authorization": format!("Bearer {TOKEN}")},
        "body": r#"{"to":"{to}","from":"{from}","text":"{text}","ref":"{id}"}"#,
        "from": "Shop",
        "idPointer": "/message/id",
        "codePointer": "/error/code",
        "codes": {"invalid_number": "target_gone", "no_credit": "pause_provider", "busy": "retry", "spam": "failed",
                  "odd": "unknown", "duplicate": "sent"},
        "probeUrl": format!("{}/balance", server.url()),
    })
}

pub(crate) async fn smsc() -> (SmscStandIn, Line) {
    smsc_with(SmscSettings { receipts: false, ..SmscSettings::default() }, limits()).await
}

pub(crate) async fn smsc_with(settings: SmscSettings, limits: Limits) -> (SmscStandIn, Line) {
    let server = SmscStandIn::start(settings, Outbox::in_memory()).await.unwrap();
    let line = Line::with("smpp", smpp_settings(&server), limits);
    (server, line)
}

pub(crate) fn smpp_settings(server: &SmscStandIn) -> Value {
    json!({
        "host": "127.0.0.1", "port": server.address().port(), "systemId": "shop", "password": "secret",
        "from": "+15005550006",
    })
}

/// Returns the messages that the stand-in accepted, newest first.
pub(crate) fn captures(outbox: &Arc<Outbox>) -> Vec<Capture> {
    outbox.captures().iter().map(|capture| Capture::clone(capture)).collect()
}

/// Returns the sender, recipient and text of the only accepted message.
#[track_caller]
pub(crate) fn only(outbox: &Arc<Outbox>) -> (String, String, String) {
    let captures = captures(outbox);
    let [one] = &captures[..] else { panic!("{} messages", captures.len()) };
    assert_eq!(one.channel, "sms");
    (one.from.clone(), one.to[0].clone(), one.summary.text.clone().unwrap())
}

/// Tests a provider as `tidings provider test` does.
pub(crate) async fn probe(outbound: Outbound, provider: &Provider) -> Result<String, Answer> {
    let probe = Probe { provider, outbound, now: clock::now(), installation: None };
    worker::probe(sms::KINDS, &probe).await
}

#[track_caller]
pub(crate) fn assert_sent(answer: &Answer) {
    assert!(matches!(answer.outcome, Outcome::Sent { .. }), "{answer:?}");
}

#[track_caller]
pub(crate) fn assert_answer(answer: &Answer, outcome: &Outcome, code: &str) {
    assert_eq!((&answer.outcome, answer.code.as_str()), (outcome, code), "{answer:?}");
}
