//! Providers of push messages to phones.

use std::sync::Arc;

use stand_ins::apns::{self, ApnsSettings, ApnsStandIn};
use stand_ins::faults::Faults;
use stand_ins::fcm::{self, FcmStandIn};
use stand_ins::http::Rule;
use stand_ins::outbox::Outbox;

use super::{Kind, LOST, LOST_ON_HTTP2, Peer, answers, header};
use crate::record::Codes;

pub(super) async fn apns(faults: Arc<Faults>) -> Peer {
    let outbox = Outbox::in_memory();
    let stand_in = ApnsStandIn::start(ApnsSettings::default(), outbox.clone()).await.unwrap();
    let refusal = |status, reason| apns::refusal(status, reason, None);
    stand_in.script(Rule::by_chance(
        faults.clone(),
        answers(
            refusal(503, "ServiceUnavailable"),
            refusal(429, "TooManyRequests"),
            refusal(400, "BadDeviceToken"),
        ),
    ));
    let kind = Kind {
        identifier: "apns",
        channel: "mobilePush",
        kind: "apns",
        priority: 1,
        settings: stand_in.provider_settings(),
        prefix: "apns:",
        codes: Codes {
            temporary: "503 ServiceUnavailable",
            busy: "429 TooManyRequests",
            gone: "400 BadDeviceToken",
            lost: LOST_ON_HTTP2,
            down: &["502"],
        },
        multiplexed: true,
        delivery: |capture| Some(header(capture, "apns-id").to_owned()),
    };
    Peer::new(kind, faults, outbox, stand_in)
}

pub(super) async fn fcm(faults: Arc<Faults>) -> Peer {
    let outbox = Outbox::in_memory();
    let stand_in = FcmStandIn::start(0, outbox.clone()).await.unwrap();
    let refusal = |status, code| fcm::refusal(status, code, &[]);
    stand_in.script(Rule::by_chance(
        faults.clone(),
        answers(refusal(503, "UNAVAILABLE"), refusal(429, "QUOTA_EXCEEDED"), refusal(404, "UNREGISTERED")),
    ));
    let kind = Kind {
        identifier: "fcm",
        channel: "mobilePush",
        kind: "fcm",
        priority: 2,
        settings: stand_in.provider_settings(),
        prefix: "fcm:",
        codes: Codes {
            temporary: "503 UNAVAILABLE",
            busy: "429 QUOTA_EXCEEDED",
            gone: "404 UNREGISTERED",
            lost: LOST,
            down: &["502"],
        },
        multiplexed: false,
        delivery: |_| None,
    };
    Peer::new(kind, faults, outbox, stand_in)
}
