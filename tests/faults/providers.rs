//! Stand-ins of eight providers, each with its own faults and outbox.

mod email;
mod mobile_push;
mod sms;
mod web_push;

use std::any::Any;
use std::sync::Arc;

use domain::Timestamp;
use hyper::Response;
use hyper::body::Bytes;
use hyper::header::HeaderValue;
use serde_json::{Value, json};
use stand_ins::faults::{Faults, Shares};
use stand_ins::http::Answers;
use stand_ins::outbox::{Capture, Outbox};
use stand_ins::push_service::PushServiceStandIn;
use suite::{Person, numbered_send};

use crate::record::{AcceptedMessage, Codes, ProviderView};

/// Shares of the calls that fail in each way. `gone` is a share of the targets, not of the calls.
const SHARES: Shares =
    Shares { temporary: 0.05, busy: 0.005, gone: 0.01, cut_before: 0.005, cut_after: 0.005, ..Shares::NONE };

/// The running stand-in of a provider.
pub(crate) struct Peer {
    pub(crate) faults: Arc<Faults>,
    /// Document for `tidings provider set`.
    pub(crate) document: Value,
    /// Properties that are the same in every round.
    seen: ProviderView,
    outbox: Arc<Outbox>,
    /// Reads the delivery id from a message, if the protocol has a place for it.
    delivery: fn(&Capture) -> Option<String>,
    /// Number of calls in earlier rounds.
    earlier: usize,
    _stand_in: Box<dyn Any + Send + Sync>,
}

/// Fixed properties of a provider.
struct Kind {
    identifier: &'static str,
    channel: &'static str,
    kind: &'static str,
    /// Priority; the provider with the lowest number is tried first.
    priority: u32,
    settings: Value,
    prefix: &'static str,
    codes: Codes,
    multiplexed: bool,
    delivery: fn(&Capture) -> Option<String>,
}

impl Peer {
    fn new(kind: Kind, faults: Arc<Faults>, outbox: Arc<Outbox>, stand_in: impl Any + Send + Sync) -> Peer {
        let Kind { identifier, channel, kind, priority, settings, prefix, codes, multiplexed, delivery } =
            kind;
        let document = json!({
            "identifier": identifier, "channel": channel, "kind": kind, "priority": priority, "settings": settings,
        });
        let keyed = document["settings"]["idempotent"] == true;
        let seen = ProviderView {
            channel: channel.to_owned(),
            prefix,
            codes,
            multiplexed,
            keyed,
            ..ProviderView::default()
        };
        Peer { faults, document, seen, outbox, delivery, earlier: 0, _stand_in: Box::new(stand_in) }
    }

    /// Identifier of the provider in its document.
    pub(crate) fn identifier(&self) -> String {
        self.document["identifier"].as_str().unwrap().to_owned()
    }

    pub(crate) fn channel(&self) -> &str {
        &self.seen.channel
    }

    /// Starts a round, with or without faults.
    pub(crate) fn begin(&mut self, faults: bool) {
        self.faults.rest(!faults);
        self.outbox.clear().unwrap();
        self.earlier = self.faults.calls().len();
    }

    /// Calls and messages that the provider received in this round.
    pub(crate) fn seen(&self, down: Option<(Timestamp, Timestamp)>) -> ProviderView {
        let taken = |capture: &Arc<Capture>| {
            let [target] = &capture.to[..] else {
                panic!("a message must have one recipient: {:?}", capture.to);
            };
            AcceptedMessage {
                target: target.strip_prefix(self.seen.prefix).unwrap_or(target).to_owned(),
                notice: numbered_send::title_in(capture),
                delivery: (self.delivery)(capture),
            }
        };
        ProviderView {
            calls: self.faults.calls().split_off(self.earlier),
            taken: self.outbox.captures().iter().map(taken).collect(),
            down,
            ..self.seen.clone()
        }
    }
}

/// The running stand-ins of all providers.
pub(crate) struct Providers {
    pub(crate) peers: Vec<Peer>,
    push_service: Arc<PushServiceStandIn>,
}

const SMS: [&str; 3] = ["twilio", "sms-http", "smpp"];

impl Providers {
    /// Starts every provider. The seed decides the faults, differently for each provider.
    pub(crate) async fn start(seed: u64) -> Providers {
        let mut number = 0;
        let mut next = || {
            number += 1;
            Arc::new(Faults::new(seed.wrapping_add(number), SHARES))
        };
        let (push_service, browsers) = web_push::start(next()).await;
        let peers = vec![
            email::smtp(next()).await,
            email::postmark(next()).await,
            browsers,
            mobile_push::apns(next()).await,
            mobile_push::fcm(next()).await,
            sms::twilio(next()).await,
            sms::http(next()).await,
            sms::smpp(next()).await,
        ];
        Providers { peers, push_service }
    }

    pub(crate) fn push_service_url(&self) -> String {
        self.push_service.url()
    }

    /// Subscribes a new browser at the push service, and returns its subscription. The person's identifier
    /// determines the faults of this subscription. Its endpoint is random and would give other faults in every run.
    pub(crate) fn browser(&self, person: Person) -> Value {
        let browser = self.push_service.subscribe(None).unwrap();
        let peer = self.peers.iter().find(|peer| peer.channel() == "webPush").unwrap();
        peer.faults.name(browser.endpoint(), &person.identifier());
        browser.subscription()
    }

    /// Documents of the SMS providers for a round. In each round, a different provider has the highest priority.
    pub(crate) fn prioritized(&self, round: usize) -> impl Iterator<Item = Value> {
        let first = SMS[round % SMS.len()];
        let peers = self.peers.iter().filter(|peer| SMS.contains(&peer.identifier().as_str()));
        peers.map(move |peer| {
            let mut document = peer.document.clone();
            document["priority"] = json!(if peer.identifier() == first { 1 } else { 2 });
            document
        })
    }
}

/// Codes of attempts that received no answer, or only a part of one.
const LOST: &[&str] = &["connection_lost", "cut_short"];

/// The same over HTTP/2. If the connection closes at the moment at which the HTTP client hands a request to it, the client
/// now and then loses the request without an error (the channel between them drops it only with its last sender, and the
/// request itself holds one). Only the time limit ends such a call.
const LOST_ON_HTTP2: &[&str] = &["connection_lost", "cut_short", TIMEOUT];

pub(crate) const TIMEOUT: &str = "timeout";

/// Adds `Retry-After: 1` to an answer.
fn after_a_second(mut answer: Response<Bytes>) -> Response<Bytes> {
    answer.headers_mut().insert("retry-after", HeaderValue::from_static("1"));
    answer
}

/// Answers that an HTTP stand-in gives for each fault.
fn answers(temporary: Response<Bytes>, busy: Response<Bytes>, gone: Response<Bytes>) -> Answers {
    let [down, refused, pause] = [502, 400, 403].map(stand_ins::http::status);
    Answers { temporary, busy: after_a_second(busy), gone, down, refused, pause }
}

fn header<'a>(capture: &'a Capture, name: &str) -> &'a str {
    &capture.summary.headers[name][0]
}
