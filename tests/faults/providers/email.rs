//! Two email providers. Deliveries fail over from the first to the second.

use std::sync::Arc;

use serde_json::json;
use stand_ins::faults::Faults;
use stand_ins::http;
use stand_ins::outbox::{Capture, Outbox};
use stand_ins::postmark::{PostmarkSettings, PostmarkStandIn, refused};
use stand_ins::smtp::{Rule, SmtpSettings, SmtpStandIn};

use super::{Kind, LOST, Peer, answers};
use crate::record::Codes;

/// Starts the provider that is down for a part of the round.
pub(super) async fn smtp(faults: Arc<Faults>) -> Peer {
    let outbox = Outbox::in_memory();
    let stand_in = SmtpStandIn::start(SmtpSettings::default(), outbox.clone()).await.unwrap();
    stand_in.script(Rule::by_chance(faults.clone()));
    let kind = Kind {
        identifier: "smtp",
        channel: "email",
        kind: "smtp",
        priority: 1,
        settings: json!({
            "host": "127.0.0.1", "port": stand_in.address().port(), "security": "none", "from": "shop@example.com",
        }),
        prefix: "",
        codes: Codes {
            temporary: "450 4.2.0",
            busy: "452 4.3.1",
            gone: "550 5.1.1",
            lost: LOST,
            down: &["421 4.3.2"],
        },
        multiplexed: false,
        delivery: |capture| Some(message_id(capture)),
    };
    Peer::new(kind, faults, outbox, stand_in)
}

pub(super) async fn postmark(faults: Arc<Faults>) -> Peer {
    let outbox = Outbox::in_memory();
    let token = "server-token".to_owned();
    let settings = PostmarkSettings { server_token: token.clone(), ..PostmarkSettings::default() };
    let stand_in = PostmarkStandIn::start(settings, outbox.clone()).await.unwrap();
    stand_in.script(http::Rule::by_chance(
        faults.clone(),
        answers(refused(503, 0, "not now"), refused(429, 0, "too busy"), refused(422, 406, "inactive")),
    ));
    let kind = Kind {
        identifier: "postmark",
        channel: "email",
        kind: "postmark",
        priority: 2,
        settings: json!({
            "serverToken": token, "from": "shop@example.com", "baseUrl": stand_in.http().url(),
        }),
        prefix: "",
        codes: Codes { temporary: "503", busy: "429", gone: "422 406", lost: LOST, down: &["502"] },
        multiplexed: false,
        delivery: |_| None,
    };
    Peer::new(kind, faults, outbox, stand_in)
}

/// Reads the delivery id from the header `Message-ID: <{delivery}@example.com>`.
fn message_id(capture: &Capture) -> String {
    let raw = String::from_utf8_lossy(&capture.raw);
    let mut lines = raw.lines().filter_map(|line| line.strip_prefix("Message-ID: <"));
    lines.next().unwrap().split('@').next().unwrap().to_owned()
}
