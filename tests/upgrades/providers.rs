//! What is called: a provider of each kind of push, an SMTP server, short messages, and the app's backend.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use testkit::apns::{ApnsSettings, ApnsStandIn};
use testkit::fcm::FcmStandIn;
use testkit::http::HttpSettings;
use testkit::outbox::Outbox;
use testkit::push_service::PushServiceStandIn;
use testkit::smtp::{SmtpSettings, SmtpStandIn};
use testkit::twilio::{TwilioSettings, TwilioStandIn};
use testkit::webhook::WebhookReceiver;

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
