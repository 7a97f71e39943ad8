//! The providers: a stand-in for each channel, which does to some people what providers do.

use std::sync::Arc;

use serde_json::{Value, json};
use stand_ins::fcm::FcmStandIn;
use stand_ins::http::{HttpSettings, Reaction, Rule};
use stand_ins::outbox::{Capture, Outbox};
use stand_ins::push_service::PushServiceStandIn;
use stand_ins::sms_http::SmsHttpStandIn;
use stand_ins::smtp::{SmtpSettings, SmtpStandIn, Stage};
use stand_ins::{http, smtp};

/// Refused for now, three times a message.
pub(crate) const SLOW_DOMAIN: &str = "slow.example";
/// Refused for now, always.
pub(crate) const FULL_DOMAIN: &str = "full.example";
/// Refused for good.
pub(crate) const DEAD_DOMAIN: &str = "dead.example";
/// An SMS to it is never answered.
pub(crate) const SILENT: &str = "+14150000007";

/// All of them, running.
pub(crate) struct Providers {
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) push_service: PushServiceStandIn,
    smtp: SmtpStandIn,
    fcm: FcmStandIn,
    sms: SmsHttpStandIn,
}

impl Providers {
    pub(crate) async fn start() -> Providers {
        let outbox = Outbox::in_memory();
        let smtp = SmtpStandIn::start(SmtpSettings::default(), outbox.clone()).await.unwrap();
        let later = || smtp::Rule::answer(Stage::Rcpt, "450 4.2.0 later").times(u32::MAX);
        smtp.script(later().to(format!("*@{FULL_DOMAIN}")));
        smtp.script(later().to(format!("*@{SLOW_DOMAIN}")).times(6));
        let gone = smtp::Rule::answer(Stage::Rcpt, "550 5.1.1 nobody").times(u32::MAX);
        smtp.script(gone.to(format!("*@{DEAD_DOMAIN}")));
        let sms = SmsHttpStandIn::start(0, outbox.clone()).await.unwrap();
        sms.script(Rule::new(Reaction::Stall).to(SILENT).times(u32::MAX));
        let fcm = FcmStandIn::start(0, outbox.clone()).await.unwrap();
        let push_service = PushServiceStandIn::start(HttpSettings::default(), outbox.clone()).await.unwrap();
        // Some calls fail, so that retries are under way at any time.
        fcm.script(Rule::answer(http::status(503)).times(15));
        push_service.script(Rule::answer(http::status(503)).times(15));
        Providers { outbox, push_service, smtp, fcm, sms }
    }

    /// As `tidings provider set` reads them.
    pub(crate) fn documents(&self) -> Vec<Value> {
        let mut sms = self.sms.provider_settings();
        sms["idempotent"] = false.into();
        let smtp = json!({
            "host": "127.0.0.1", "port": self.smtp.address().port(), "security": "none", "from": "shop@example.com",
        });
        let document = |channel: &str, kind: &str, settings| json!({"identifier": kind, "channel": channel, "kind": kind, "settings": settings});
        vec![
            document("email", "smtp", smtp),
            document("sms", "http", sms),
            document("mobilePush", "fcm", self.fcm.provider_settings()),
            document("webPush", "vapid", json!({"subject": "mailto:push@example.com"})),
        ]
    }

    /// What they took so far.
    pub(crate) fn taken(&self) -> Vec<Arc<Capture>> {
        self.outbox.captures()
    }
}
