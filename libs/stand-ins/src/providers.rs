//! Stand-ins for providers of every channel, with one outbox.

use std::io;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::apns::{ApnsSettings, ApnsStandIn};
use crate::fcm::FcmStandIn;
use crate::http::HttpSettings;
use crate::outbox::Outbox;
use crate::push_service::PushServiceStandIn;
use crate::sms_http::SmsHttpStandIn;
use crate::smtp::{SmtpSettings, SmtpStandIn};
use crate::twilio::{TwilioSettings, TwilioStandIn};

/// Running stand-ins, none of which sends receipts or status callbacks.
#[derive(Debug)]
pub struct Providers {
    pub outbox: Arc<Outbox>,
    pub smtp: SmtpStandIn,
    pub push_service: PushServiceStandIn,
    pub apns: ApnsStandIn,
    pub fcm: FcmStandIn,
    pub twilio: TwilioStandIn,
    pub sms_http: SmsHttpStandIn,
}

impl Providers {
    pub async fn start(outbox: Arc<Outbox>) -> io::Result<Self> {
        let twilio = TwilioSettings { reports: false, ..TwilioSettings::default() };
        Ok(Providers {
            smtp: SmtpStandIn::start(SmtpSettings::default(), outbox.clone()).await?,
            push_service: PushServiceStandIn::start(HttpSettings::default(), outbox.clone()).await?,
            apns: ApnsStandIn::start(ApnsSettings::default(), outbox.clone()).await?,
            fcm: FcmStandIn::start(0, outbox.clone()).await?,
            twilio: TwilioStandIn::start(twilio, outbox.clone()).await?,
            sms_http: SmsHttpStandIn::start(0, outbox.clone()).await?,
            outbox,
        })
    }

    #[must_use]
    pub fn smtp_document(&self) -> Value {
        let settings = json!({
            "host": "127.0.0.1", "port": self.smtp.address().port(), "security": "none", "from": "shop@example.com",
        });
        document("smtp", "email", "smtp", &settings)
    }

    /// The document of the HTTP provider for SMS sets `idempotent` to false, although the provider de-duplicates by idempotency key. So if
    /// the outcome of a call to this provider is unknown, a worker never repeats the call.
    #[must_use]
    pub fn documents(&self) -> Vec<Value> {
        let mut sms_http = self.sms_http.provider_settings();
        sms_http["idempotent"] = false.into();
        vec![
            self.smtp_document(),
            document("vapid", "webPush", "vapid", &json!({"subject": "mailto:push@example.com"})),
            document("apns", "mobilePush", "apns", &self.apns.provider_settings()),
            document("fcm", "mobilePush", "fcm", &self.fcm.provider_settings()),
            document("twilio", "sms", "twilio", &self.twilio.provider_settings()),
            document("sms-http", "sms", "http", &sms_http),
        ]
    }
}

fn document(identifier: &str, channel: &str, kind: &str, settings: &Value) -> Value {
    json!({"identifier": identifier, "channel": channel, "kind": kind, "settings": settings})
}
