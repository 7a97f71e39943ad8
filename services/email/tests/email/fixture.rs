use std::time::Duration;

use domain::content::{Content, EmailContent};
use domain::event::DeliveryJob;
use domain::{Answer, AppId, Channel, DeliveryId, Lane, Outcome, SendId, Timestamp, UserNumber};
use email::{EmailSender, PoolLimits, Sources, Times};
use futures_util::FutureExt;
use serde_json::{Value, json};
use service_kit::clock;
use stand_ins::outbox::{Capture, Outbox};
use stand_ins::smtp::{SmtpSettings, SmtpStandIn};
use uuid::Uuid;
use worker::{Call, Lease, Outbound, Probe, Provider};

pub(crate) const LIMIT: Duration = Duration::from_secs(20);
pub(crate) const TO: &str = "ada@example.org";
/// 2026-01-02T03:04:05Z
pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_767_323_045_000);

pub(crate) const SEND: SendId = SendId(Uuid::from_u128(9));

/// A stand-in for a mail server, and a sender whose provider is the stand-in.
pub(crate) struct Mailer {
    pub(crate) server: SmtpStandIn,
    pub(crate) sender: EmailSender,
    pub(crate) provider: Provider,
}

impl Mailer {
    pub(crate) async fn start() -> Self {
        Mailer::with(SmtpSettings::default(), limits()).await
    }

    pub(crate) async fn with(server: SmtpSettings, limits: PoolLimits) -> Self {
        let server = SmtpStandIn::start(server, Outbox::in_memory()).await.unwrap();
        let settings = json!({
            "host": "127.0.0.1", "port": server.address().port(), "security": "none",
            "from": "news@example.com", "fromName": "Tidings", "replyTo": "help@example.com",
        });
        Mailer { server, sender: sender(limits), provider: provider("smtp", settings) }
    }

    pub(crate) async fn send(&self, to: &str) -> Answer {
        self.send_content(to, text("hello")).await
    }

    pub(crate) async fn send_content(&self, to: &str, content: EmailContent) -> Answer {
        attempt(&self.sender, &self.provider, to, content).await
    }

    /// Messages that the server accepted, newest first.
    pub(crate) fn captures(&self) -> Vec<Capture> {
        self.server.outbox().captures().iter().map(|capture| Capture::clone(capture)).collect()
    }
}

/// Creates a sender that may call this machine. It has no attachments or unsubscribe links.
pub(crate) fn sender(limits: PoolLimits) -> EmailSender {
    sender_within(limits, Outbound::new(true))
}

/// Creates a sender that calls only hosts that `outbound` allows. It has no attachments or unsubscribe links.
pub(crate) fn sender_within(limits: PoolLimits, outbound: Outbound) -> EmailSender {
    let nothing = Sources::new(
        Box::new(|_, _, _| async { Ok(None) }.boxed()),
        Box::new(|_, _, _| async { Ok(None) }.boxed()),
    );
    EmailSender::new(limits, outbound, nothing).unwrap()
}

pub(crate) fn provider(kind: &str, settings: Value) -> Provider {
    let (identifier, kind) = ("main".to_owned(), kind.to_owned());
    Provider { app: AppId(1), identifier, kind, settings, version: 1 }
}

pub(crate) async fn attempt(
    sender: &EmailSender,
    provider: &Provider,
    to: &str,
    content: EmailContent,
) -> Answer {
    attempt_job(sender, provider, &job(to, content)).await
}

/// Makes an attempt of an email that belongs to `send`.
pub(crate) async fn attempt_of(
    send: SendId,
    sender: &EmailSender,
    provider: &Provider,
    to: &str,
    content: EmailContent,
) -> Answer {
    let (app, lane, job) = (provider.app, Lane::Transactional, &job(to, content));
    let lease = &Lease::lasting(Duration::from_secs(90));
    sender.attempt(&Call { app, send_id: Some(send), lane, provider, job, now: NOW, lease }).await
}

pub(crate) async fn attempt_job(sender: &EmailSender, provider: &Provider, job: &DeliveryJob) -> Answer {
    attempt_within(&Lease::lasting(Duration::from_secs(90)), sender, provider, job).await
}

/// Makes an attempt as long as `lease` lasts.
pub(crate) async fn attempt_within(
    lease: &Lease,
    sender: &EmailSender,
    provider: &Provider,
    job: &DeliveryJob,
) -> Answer {
    let (app, lane, send_id) = (provider.app, Lane::Transactional, Some(SEND));
    sender.attempt(&Call { app, send_id, lane, provider, job, now: NOW, lease }).await
}

pub(crate) fn limits() -> PoolLimits {
    PoolLimits::default()
}

/// Creates limits that allow `time` for each step of sending an email.
pub(crate) fn limits_each(time: Duration) -> PoolLimits {
    let times = Times {
        connect: time,
        handshake: time,
        greeting: time,
        hello: time,
        login: time,
        mail: time,
        rcpt: time,
        data: time,
        block: time,
        before_dot: time * 10,
        dot: time,
    };
    PoolLimits { queueing: time, times, ..limits() }
}

pub(crate) fn text(text: &str) -> EmailContent {
    EmailContent { subject: "Subject".to_owned(), text: Some(text.to_owned()), ..EmailContent::default() }
}

pub(crate) fn job(to: &str, content: EmailContent) -> DeliveryJob {
    let id = DeliveryId(Uuid::from_u128(7));
    DeliveryJob::first(id, Channel::Email, UserNumber(1), to.to_owned(), Content::Email(content))
}

/// Tests a provider as `tidings provider test` does.
pub(crate) async fn probe(outbound: Outbound, provider: &Provider) -> Result<String, Answer> {
    let probe = Probe { provider, outbound, now: clock::now(), installation: None };
    worker::probe(email::KINDS, &probe).await
}

#[track_caller]
pub(crate) fn assert_sent(answer: &Answer) {
    assert!(matches!(answer.outcome, Outcome::Sent { .. }), "{answer:?}");
}
