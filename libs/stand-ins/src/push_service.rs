//! Stand-in for a push service (RFC 8030), and for the browsers that subscribe to it.
//!
//! It is strict. A message needs a `TTL`, and a valid VAPID token (RFC 8292) for this service that expires within a
//! day. `Urgency` and `Topic` must be valid if they are present. The body must have at most 4,096 bytes and the header
//! of RFC 8188, and the browser's key must be able to decrypt it. An accepted message is captured before the answer
//! 201. The `text` of the capture is the decrypted message, as a service worker receives it.
//!
//! `POST /subscriptions` subscribes a new browser, and answers with a subscription like that of
//! `PushManager.subscribe()`. The body of the request may have two members. `applicationServerKey` restricts the
//! subscription to messages that are signed with this key. `answers` is an HTTP status with which all messages to the
//! subscription are answered.

mod authorization;
mod browser;
mod delivery;
mod refused;
mod registry;

use std::io;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use hyper::body::Bytes;
use hyper::header::{HeaderValue, LOCATION};
use hyper::{Method, Request, Response};
use serde_json::{Value, json};

use crate::http::{Handler, HttpServer, HttpSettings, Reaction, Reply, Rule, Script, json, status};
use crate::outbox::{Outbox, Summary};
pub use browser::{Browser, DecryptionError};
use delivery::Delivery;
use refused::Refusal;
use registry::Registry;
pub use registry::WaitingMessage;

const SUBSCRIPTIONS: &str = "/subscriptions";
const ENDPOINTS: &str = "/push/";

#[derive(Debug)]
pub struct PushServiceStandIn {
    server: HttpServer,
    service: Arc<PushService>,
}

#[derive(Debug)]
struct PushService {
    origin: std::sync::OnceLock<String>,
    outbox: Arc<Outbox>,
    script: Arc<Script>,
    registry: Registry,
}

impl PushServiceStandIn {
    pub async fn start(settings: HttpSettings, outbox: Arc<Outbox>) -> io::Result<Self> {
        let service = Arc::new(PushService {
            origin: std::sync::OnceLock::new(),
            outbox,
            script: Arc::default(),
            registry: Registry::default(),
        });
        let server = HttpServer::start(settings, service.clone()).await?;
        service.origin.get_or_init(|| server.url());
        Ok(PushServiceStandIn { server, service })
    }

    #[must_use]
    pub fn url(&self) -> String {
        self.server.url()
    }

    #[must_use]
    pub fn server(&self) -> &HttpServer {
        &self.server
    }

    #[must_use]
    pub fn outbox(&self) -> &Arc<Outbox> {
        &self.service.outbox
    }

    /// Appends a rule to the script. The target of a rule is a whole endpoint URL. Rules apply only to messages
    /// whose headers and body format are valid.
    pub fn script(&self, rule: Rule) {
        self.service.script.add(rule);
    }

    #[must_use]
    pub fn rules_left(&self) -> usize {
        self.service.script.left()
    }

    /// Refuses messages that are signed with a key other than `application_server_key`, if it is set.
    ///
    /// # Errors
    /// No random numbers are available, or 100,000 browsers have subscribed.
    pub fn subscribe(&self, application_server_key: Option<&str>) -> anyhow::Result<Arc<Browser>> {
        let (origin, restricted) = (self.url(), application_server_key.map(str::to_owned));
        self.service.registry.subscribe(&origin, restricted, None)
    }

    /// Ends a subscription, whose endpoint then answers 410.
    pub fn unsubscribe(&self, browser: &Browser) {
        self.service.registry.unsubscribe(browser.endpoint());
    }

    /// Messages that wait for a browser, oldest first. A new message replaces an earlier one with the same topic (RFC
    /// 8030, section 5.4). A message with a TTL of 0 is not kept.
    #[must_use]
    pub fn waiting(&self, browser: &Browser) -> Vec<WaitingMessage> {
        self.service.registry.waiting(browser.endpoint())
    }

    pub(crate) fn shared_script(&self) -> Arc<Script> {
        self.service.script.clone()
    }

    pub async fn stop(self) {
        self.server.stop().await;
    }
}

impl Handler for PushService {
    fn handle(&self, request: &Request<Bytes>) -> Reply {
        let path = request.uri().path();
        match (request.method(), path.strip_prefix(ENDPOINTS)) {
            (&Method::POST, None) if path == SUBSCRIPTIONS => {
                Reply::Answer(self.subscription(request.body()))
            }
            (&Method::POST, Some(_)) => self.take(request),
            (_, Some(_)) => Reply::Answer(status(405)),
            _ => Reply::Answer(status(404)),
        }
    }
}

impl PushService {
    fn origin(&self) -> &str {
        self.origin.get().map_or("", String::as_str)
    }

    fn subscription(&self, body: &Bytes) -> Response<Bytes> {
        let asked: Value = match serde_json::from_slice(body) {
            Ok(asked) => asked,
            Err(_) if body.is_empty() => Value::Null,
            Err(error) => return json(400, &json!({"message": error.to_string()})),
        };
        let restricted = asked["applicationServerKey"].as_str().map(str::to_owned);
        let answers = asked["answers"].as_u64().and_then(|status| u16::try_from(status).ok());
        match self.registry.subscribe(self.origin(), restricted, answers) {
            Ok(browser) => json(201, &browser.subscription()),
            Err(error) => json(503, &json!({"message": error.to_string()})),
        }
    }

    fn take(&self, request: &Request<Bytes>) -> Reply {
        let endpoint = format!("{}{}", self.origin(), request.uri().path());
        let delivery = match Delivery::read(request, self.origin(), now()) {
            Ok(delivery) => delivery,
            Err(refused) => return Reply::Answer(refused.answer()),
        };
        let reaction = self.script.take(&endpoint);
        match reaction {
            Some(Reaction::Answer(response)) => return Reply::Answer(response),
            Some(Reaction::CutBefore) => return Reply::Cut,
            Some(Reaction::Stall) => return Reply::Stall,
            Some(Reaction::CutAfter) | None => {}
        }
        match self.deliver(request, &endpoint, &delivery) {
            Ok(_) if matches!(reaction, Some(Reaction::CutAfter)) => Reply::Cut,
            Ok(response) => Reply::Answer(response),
            Err(refused) => Reply::Answer(refused.answer()),
        }
    }

    fn deliver(
        &self,
        request: &Request<Bytes>,
        endpoint: &str,
        delivery: &Delivery,
    ) -> Result<Response<Bytes>, Refusal> {
        let subscriber = self.registry.subscriber(endpoint, &delivery.authorization.public_key)?;
        let message = subscriber.decrypt(request.body());
        let message = message.map_err(|error| Refusal::new(400, &error.to_string()))?;
        let text = String::from_utf8_lossy(&message).into_owned();
        let title = serde_json::from_slice::<Value>(&message).ok();
        let title = title.and_then(|message| message["title"].as_str().map(str::to_owned));
        let summary = Summary::of_request(request, title, Some(text));
        let (from, to) = (&delivery.authorization.subject, [endpoint.to_owned()]);
        let kept = self.outbox.keep("webPush", from, &to, request.body().to_vec(), summary);
        kept.map_err(|error| Refusal::new(500, &error.to_string()))?;
        let number = self.registry.keep(endpoint, delivery.waiting(message));
        let mut response = status(201);
        if let Ok(location) = HeaderValue::from_str(&format!("{}/message/{number}", self.origin())) {
            response.headers_mut().insert(LOCATION, location);
        }
        Ok(response)
    }
}

/// Seconds since 1970.
#[allow(clippy::disallowed_methods, reason = "the edge that takes a message reads the clock")]
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
