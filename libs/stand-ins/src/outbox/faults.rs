//! Faults that a person orders on the outbox page.

use std::sync::Arc;

use serde_json::json;

use crate::http::{self, Rule as HttpRule};
use crate::smtp::{self, Rule as SmtpRule, Stage};
use crate::{apns, fcm, smsc, twilio};

/// Most answers of one order.
pub(super) const MOST: u32 = 1_000;

/// The scripts of running stand-ins.
#[derive(Clone, Debug, Default)]
pub(crate) struct FaultPanel {
    pub(crate) smtp: Arc<smtp::Script>,
    pub(crate) web_push: Arc<http::Script>,
    pub(crate) apns: Arc<http::Script>,
    pub(crate) fcm: Arc<http::Script>,
    pub(crate) twilio: Arc<http::Script>,
    pub(crate) smsc: Arc<smsc::Script>,
}

pub(super) struct Choice {
    pub(super) name: &'static str,
    pub(super) label: &'static str,
    fault: Fault,
}

#[derive(Clone, Copy)]
enum Fault {
    Email(fn() -> SmtpRule),
    WebPush(fn() -> HttpRule),
    Apns(fn() -> HttpRule),
    Fcm(fn() -> HttpRule),
    Twilio(fn() -> HttpRule),
    Smpp(fn() -> smsc::Rule),
}

const fn choice(name: &'static str, label: &'static str, fault: Fault) -> Choice {
    Choice { name, label, fault }
}

fn hang() -> HttpRule {
    HttpRule::new(http::Reaction::Stall)
}

fn close() -> HttpRule {
    HttpRule::new(http::Reaction::CutBefore)
}

/// Answers a push to a browser with 410 in [`super::page`].
pub(super) const BROWSER_GONE: &str = "web-push-410";

/// Groups of the page, each with its faults.
pub(super) const GROUPS: [(&str, &[Choice]); 4] = [
    (
        "Emails",
        &[
            choice(
                "email-450",
                "450 4.2.0: try again later",
                Fault::Email(|| SmtpRule::answer(Stage::Rcpt, "450 4.2.0 ordered on the outbox page")),
            ),
            choice(
                "email-550",
                "550 5.1.1: no such mailbox",
                Fault::Email(|| SmtpRule::answer(Stage::Rcpt, "550 5.1.1 ordered on the outbox page")),
            ),
            choice("email-hang", "hang: no answer", Fault::Email(|| SmtpRule::stall(Stage::Rcpt))),
            choice("email-close", "close the connection", Fault::Email(|| SmtpRule::cut(Stage::Rcpt))),
            choice(
                "email-unknown",
                "accept, then close without an answer",
                Fault::Email(|| SmtpRule::cut(Stage::Dot)),
            ),
        ],
    ),
    (
        "SMS",
        &[
            choice(
                "sms-21211",
                "Twilio 21211: no such number",
                Fault::Twilio(|| HttpRule::answer(twilio::refusal(400, 21211, "ordered on the outbox page"))),
            ),
            choice(
                "sms-429",
                "Twilio 20429: too many requests",
                Fault::Twilio(|| HttpRule::answer(twilio::refusal(429, 20429, "ordered on the outbox page"))),
            ),
            choice("sms-hang", "Twilio: hang", Fault::Twilio(hang)),
            choice("sms-close", "Twilio: close the connection", Fault::Twilio(close)),
            choice(
                "smpp-throttled",
                "SMPP ESME_RTHROTTLED: too many messages",
                Fault::Smpp(|| smsc::Rule::status(0x58)),
            ),
            choice(
                "smpp-invalid",
                "SMPP ESME_RINVDSTADR: no such number",
                Fault::Smpp(|| smsc::Rule::status(0x0b)),
            ),
        ],
    ),
    (
        "Web pushes",
        &[
            choice(
                BROWSER_GONE,
                "410: the subscription has ended",
                Fault::WebPush(|| HttpRule::answer(http::status(410))),
            ),
            choice(
                "web-push-429",
                "429: too many pushes",
                Fault::WebPush(|| HttpRule::answer(http::status(429))),
            ),
            choice(
                "web-push-503",
                "503: unavailable",
                Fault::WebPush(|| HttpRule::answer(http::status(503))),
            ),
            choice("web-push-hang", "hang: no answer", Fault::WebPush(hang)),
            choice("web-push-close", "close the connection", Fault::WebPush(close)),
        ],
    ),
    (
        "Mobile pushes",
        &[
            choice(
                "apns-410",
                "APNs 410: Unregistered",
                Fault::Apns(|| {
                    HttpRule::answer(http::json(
                        410,
                        &json!({"reason": "Unregistered", "timestamp": i64::MAX}),
                    ))
                }),
            ),
            choice(
                "apns-503",
                "APNs 503: ServiceUnavailable",
                Fault::Apns(|| HttpRule::answer(apns::refusal(503, "ServiceUnavailable", None))),
            ),
            choice(
                "fcm-404",
                "FCM 404: UNREGISTERED",
                Fault::Fcm(|| HttpRule::answer(fcm::refusal(404, "UNREGISTERED", &[]))),
            ),
            choice(
                "fcm-503",
                "FCM 503: UNAVAILABLE",
                Fault::Fcm(|| HttpRule::answer(fcm::refusal(503, "UNAVAILABLE", &[]))),
            ),
            choice("fcm-hang", "FCM: hang", Fault::Fcm(hang)),
        ],
    ),
];

impl FaultPanel {
    /// Orders the next `times` answers of the stand-in, to messages for any recipient if `to` is None. Returns false if no fault has this name.
    pub(super) fn order(&self, name: &str, times: u32, to: Option<&str>) -> bool {
        let Some(choice) = GROUPS.iter().flat_map(|(_, choices)| *choices).find(|choice| choice.name == name)
        else {
            return false;
        };
        let of_http = |rule: HttpRule| match to {
            Some(to) => rule.to(to).times(times),
            None => rule.times(times),
        };
        match choice.fault {
            Fault::Email(rule) => self.smtp.add(match to {
                Some(to) => rule().to(to).times(times),
                None => rule().times(times),
            }),
            Fault::WebPush(rule) => self.web_push.add(of_http(rule())),
            Fault::Apns(rule) => self.apns.add(of_http(rule())),
            Fault::Fcm(rule) => self.fcm.add(of_http(rule())),
            Fault::Twilio(rule) => self.twilio.add(of_http(rule())),
            Fault::Smpp(rule) => self.smsc.add(match to {
                Some(to) => rule().to(to).times(times),
                None => rule().times(times),
            }),
        }
        true
    }

    /// Number of answers that are ordered and not given yet.
    pub(super) fn ordered(&self) -> u64 {
        let of_http =
            [&self.web_push, &self.apns, &self.fcm, &self.twilio].map(|script| script.reactions_left());
        self.smtp.reactions_left() + self.smsc.reactions_left() + of_http.iter().sum::<u64>()
    }

    pub(super) fn clear(&self) {
        self.smtp.clear();
        self.smsc.clear();
        for script in [&self.web_push, &self.apns, &self.fcm, &self.twilio] {
            script.clear();
        }
    }
}
