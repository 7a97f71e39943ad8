//! SMS providers.

use std::sync::Arc;

use serde_json::{Value, json};
use stand_ins::faults::Faults;
use stand_ins::http::{self, Rule, status};
use stand_ins::outbox::Outbox;
use stand_ins::sms_http::SmsHttpStandIn;
use stand_ins::smsc::{self, SmscSettings, SmscStandIn};
use stand_ins::twilio::{TwilioSettings, TwilioStandIn, refusal};

use super::{Kind, LOST, Peer, answers};
use crate::record::Codes;

pub(super) async fn twilio(faults: Arc<Faults>) -> Peer {
    let outbox = Outbox::in_memory();
    let settings = TwilioSettings { reports: false, ..TwilioSettings::default() };
    let stand_in = TwilioStandIn::start(settings, outbox.clone()).await.unwrap();
    let (temporary, gone) = (refusal(429, 20429, "Too many requests"), refusal(400, 21211, "No such number"));
    stand_in.script(Rule::by_chance(faults.clone(), answers(temporary, status(429), gone)));
    let codes = Codes { temporary: "20429", busy: "429", gone: "21211", lost: LOST, down: &["502"] };
    let settings = stand_in.provider_settings();
    Peer::new(kind("twilio", "twilio", settings, codes, false), faults, outbox, stand_in)
}

pub(super) async fn http(faults: Arc<Faults>) -> Peer {
    let outbox = Outbox::in_memory();
    let stand_in = SmsHttpStandIn::start(0, outbox.clone()).await.unwrap();
    let gone = http::json(400, &json!({"error": {"code": "invalid_number"}}));
    stand_in.script(Rule::by_chance(faults.clone(), answers(status(408), status(429), gone)));
    let codes = Codes { temporary: "408", busy: "429", gone: "invalid_number", lost: LOST, down: &["502"] };
    let settings = stand_in.provider_settings();
    Peer::new(kind("sms-http", "http", settings, codes, false), faults, outbox, stand_in)
}

pub(super) async fn smpp(faults: Arc<Faults>) -> Peer {
    let outbox = Outbox::in_memory();
    let settings = SmscSettings { receipts: false, ..SmscSettings::default() };
    let stand_in = SmscStandIn::start(settings, outbox.clone()).await.unwrap();
    stand_in.script(smsc::Rule::by_chance(faults.clone()));
    let codes = Codes {
        temporary: "ESME_RMSGQFUL",
        busy: "ESME_RTHROTTLED",
        gone: "ESME_RINVDSTADR",
        lost: LOST,
        down: &["ESME_RSYSERR"],
    };
    let settings = stand_in.provider_settings();
    Peer::new(kind("smpp", "smpp", settings, codes, true), faults, outbox, stand_in)
}

/// Builds the fixed properties of an SMS provider. Its messages do not contain the delivery id, so `delivery` returns None.
fn kind(
    identifier: &'static str,
    kind: &'static str,
    settings: Value,
    codes: Codes,
    multiplexed: bool,
) -> Kind {
    Kind {
        identifier,
        channel: "sms",
        kind,
        priority: 1,
        settings,
        prefix: "",
        codes,
        multiplexed,
        delivery: |_| None,
    }
}
