//! What is called: a provider of each kind of push, an SMTP server, short messages, and the app's backend.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use stand_ins::apns::{ApnsSettings, ApnsStandIn};
use stand_ins::fcm::FcmStandIn;
use stand_ins::http::HttpSettings;
use stand_ins::outbox::Outbox;
use stand_ins::push_service::PushServiceStandIn;
use stand_ins::smtp::{SmtpSettings, SmtpStandIn};
use stand_ins::twilio::{TwilioSettings, TwilioStandIn};
use stand_ins::webhook::WebhookReceiver;

/// More than all messages.
const KEPT: usize = 500_000;

/// All of them, running.
pub(crate) struct Providers {
    /// What all of them but the backend took.
    pub(crate) outbox: Arc<Outbox>,
    /// Where browsers subscribe.
    pub(crate) push_service: PushServiceStandIn,
    /// The app's backend, which is told by webhooks.
    pub(crate) backend: WebhookReceiver,
    smtp: SmtpStandIn,
    twilio: TwilioStandIn,
    apns: ApnsStandIn,
    fcm: FcmStandIn,
}

impl Providers {
    pub(crate) async fn start(files: &Path) -> Providers {
        let outbox = Outbox::in_directory(files, KEPT).unwrap();
        let quiet = TwilioSettings { reports: false, ..TwilioSettings::default() };
        Providers {
            push_service: PushServiceStandIn::start(HttpSettings::default(), outbox.clone()).await.unwrap(),
            backend: WebhookReceiver::start().await.unwrap(),
            smtp: SmtpStandIn::start(SmtpSettings::default(), outbox.clone()).await.unwrap(),
            twilio: TwilioStandIn::start(quiet, outbox.clone()).await.unwrap(),
            apns: ApnsStandIn::start(ApnsSettings::default(), outbox.clone()).await.unwrap(),
            fcm: FcmStandIn::start(0, outbox.clone()).await.unwrap(),
            outbox,
        }
    }

    /// As `tidings provider set` reads them.
    pub(crate) fn documents(&self) -> Vec<Value> {
        let smtp = json!({
            "host": "127.0.0.1", "port": self.smtp.address().port(), "security": "none", "from": "shop@example.com",
        });
        let kinds = [
            ("email", "smtp", smtp),
            ("sms", "twilio", self.twilio.provider_settings()),
            ("mobilePush", "apns", self.apns.provider_settings()),
            ("mobilePush", "fcm", self.fcm.provider_settings()),
            ("webPush", "vapid", json!({"subject": "mailto:push@example.com"})),
        ];
        let document = |(channel, kind, settings)| json!({"identifier": kind, "channel": channel, "kind": kind, "settings": settings});
        kinds.map(document).into()
    }
}
