//! Providers that fail for some users.

use stand_ins::http::{self, Reaction, Rule};
use stand_ins::outbox::Outbox;
use stand_ins::providers::Providers;
use stand_ins::smtp::{self, Stage};

/// Domain whose server refuses the first six attempts temporarily.
pub(crate) const SLOW_DOMAIN: &str = "slow.example";
/// Domain whose server refuses every message temporarily.
pub(crate) const FULL_DOMAIN: &str = "full.example";
/// Domain whose server refuses every message permanently.
pub(crate) const DEAD_DOMAIN: &str = "dead.example";
/// Number for which the SMS provider never answers.
pub(crate) const SILENT: &str = "+14150000007";

pub(crate) async fn start() -> Providers {
    let providers = Providers::start(Outbox::in_memory()).await.unwrap();
    let later = || smtp::Rule::answer(Stage::Rcpt, "450 4.2.0 later").times(u32::MAX);
    providers.smtp.script(later().to(format!("*@{FULL_DOMAIN}")));
    providers.smtp.script(later().to(format!("*@{SLOW_DOMAIN}")).times(6));
    let gone = smtp::Rule::answer(Stage::Rcpt, "550 5.1.1 nobody").times(u32::MAX);
    providers.smtp.script(gone.to(format!("*@{DEAD_DOMAIN}")));
    providers.sms_http.script(Rule::new(Reaction::Stall).to(SILENT).times(u32::MAX));
    // Let some calls fail, so that some deliveries are waiting for a retry.
    providers.fcm.script(Rule::answer(http::status(503)).times(15));
    providers.push_service.script(Rule::answer(http::status(503)).times(15));
    providers
}
