use std::time::Duration;

use domain::content::{Content, EmailContent};
use domain::event::DeliveryJob;
use domain::{Answer, AppId, Channel, DeliveryId, Outcome, Timestamp, UserNumber};
use email::{PoolLimits, SmtpSender};
use serde_json::json;
use testkit::outbox::{Capture, Outbox};
use testkit::smtp::{SmtpSettings, SmtpStandIn};
use uuid::Uuid;
use worker::Provider;

pub(crate) const LIMIT: Duration = Duration::from_secs(20);
pub(crate) const TO: &str = "ada@example.org";
/// 2026-01-02T03:04:05Z
pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_767_323_045_000);

/// A stand-in and a sender that knows it as its provider.
pub(crate) struct Mailer {
    pub(crate) server: SmtpStandIn,
    pub(crate) sender: SmtpSender,
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
        let provider = Provider {
            app: AppId(1),
            identifier: "main".to_owned(),
            kind: "smtp".to_owned(),
            settings,
            version: 1,
        };
        Mailer { server, sender: SmtpSender::new(limits), provider }
    }

    pub(crate) async fn send(&self, to: &str) -> Answer {
        self.send_content(to, text("hello")).await
    }

    pub(crate) async fn send_content(&self, to: &str, content: EmailContent) -> Answer {
        self.sender.attempt(&self.provider, &job(to, content), NOW).await
    }

    /// What the server took, newest first.
    pub(crate) fn captures(&self) -> Vec<Capture> {
        self.server.outbox().captures().iter().map(|capture| Capture::clone(capture)).collect()
    }
}

pub(crate) fn limits() -> PoolLimits {
    PoolLimits::for_lease(Duration::from_secs(90))
}

/// As much time for each part of an exchange.
pub(crate) fn limits_each(time: Duration) -> PoolLimits {
    PoolLimits { connecting: time, commands: time, content: time, ..limits() }
}

pub(crate) fn text(text: &str) -> EmailContent {
    EmailContent { subject: "Subject".to_owned(), text: Some(text.to_owned()), html: None }
}

pub(crate) fn job(to: &str, content: EmailContent) -> DeliveryJob {
    DeliveryJob {
        delivery_id: DeliveryId(Uuid::from_u128(7)),
        attempt: 1,
        channel: Channel::Email,
        user: UserNumber(1),
        target: to.to_owned(),
        expires_at: None,
        content: Content::Email(content),
    }
}

#[track_caller]
pub(crate) fn assert_sent(answer: &Answer) {
    assert!(matches!(answer.outcome, Outcome::Sent { .. }), "{answer:?}");
}
