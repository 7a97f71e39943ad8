//! The push service of browsers.

use std::sync::Arc;

use serde_json::json;
use stand_ins::faults::Faults;
use stand_ins::http::{HttpSettings, Rule, status};
use stand_ins::outbox::Outbox;
use stand_ins::push_service::PushServiceStandIn;
use uuid::Uuid;

use super::{Kind, LOST, Peer, answers, header};
use crate::record::Codes;

pub(super) async fn start(faults: Arc<Faults>) -> (Arc<PushServiceStandIn>, Peer) {
    let outbox = Outbox::in_memory();
    let stand_in = PushServiceStandIn::start(HttpSettings::default(), outbox.clone()).await.unwrap();
    let stand_in = Arc::new(stand_in);
    stand_in.script(Rule::by_chance(faults.clone(), answers(status(503), status(429), status(410))));
    let kind = Kind {
        identifier: "vapid",
        channel: "webPush",
        kind: "vapid",
        priority: 1,
        settings: json!({"subject": "mailto:push@example.com"}),
        prefix: "",
        codes: Codes { temporary: "503", busy: "429", gone: "410", lost: LOST, down: &["502"] },
        multiplexed: false,
        delivery: |capture| Some(Uuid::parse_str(header(capture, "topic")).unwrap().to_string()),
    };
    (stand_in.clone(), Peer::new(kind, faults, outbox, stand_in))
}
