//! Stand-in for Apple's push service (APNs): HTTP/2, with provider tokens or client certificates.
//!
//! It refuses every push that Apple would refuse, and captures an accepted push before it answers 200. If the device
//! token is the name of a reason, such as `Unregistered`, the push is refused with that reason.

mod check;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{fmt, io};

use domain::Timestamp;
use hyper::body::Bytes;
use hyper::header::HeaderValue;
use hyper::{Request, Response};
use jsonwebtoken::DecodingKey;
use rcgen::KeyPair;
use rustls::ServerConfig;
use serde_json::{Value, json};

use crate::http::{self, ConnectionNumber, Handler, HttpServer, HttpSettings, Reaction, Reply, Rule, Script};
use crate::outbox::{Outbox, Summary};

const TEAM_ID: &str = "TEAM123456";
const KEY_ID: &str = "KEY1234567";

/// Reasons that a device token can name.
const REASONS: [(&str, u16); 14] = [
    ("BadDeviceToken", 400),
    ("DeviceTokenNotForTopic", 400),
    ("TopicDisallowed", 400),
    ("BadCertificate", 403),
    ("ExpiredProviderToken", 403),
    ("Forbidden", 403),
    ("InvalidProviderToken", 403),
    ("ExpiredToken", 410),
    ("Unregistered", 410),
    ("PayloadTooLarge", 413),
    ("TooManyProviderTokenUpdates", 429),
    ("TooManyRequests", 429),
    ("InternalServerError", 500),
    ("ServiceUnavailable", 503),
];

#[derive(Clone)]
pub struct ApnsSettings {
    /// Port to listen on; 0 for a free port.
    pub port: u16,
    /// Bundle id of the only app whose pushes the stand-in accepts.
    pub topic: String,
    /// TLS configuration. None means plain connections.
    pub tls: Option<Arc<ServerConfig>>,
    /// True if clients authenticate with a TLS certificate instead of a provider token.
    pub by_certificate: bool,
    /// Maximum number of concurrent requests on one connection. None means the default of the HTTP library.
    pub max_concurrent_streams: Option<u32>,
    /// Key that signs provider tokens, as PEM. None means a new key.
    pub key: Option<String>,
}

impl Default for ApnsSettings {
    fn default() -> Self {
        ApnsSettings {
            port: 0,
            topic: "com.example.demo".to_owned(),
            tls: None,
            by_certificate: false,
            max_concurrent_streams: None,
            key: None,
        }
    }
}

/// Generates a key that signs provider tokens.
pub(crate) fn new_key() -> io::Result<String> {
    Ok(KeyPair::generate().map_err(io::Error::other)?.serialize_pem())
}

pub struct ApnsStandIn {
    server: HttpServer,
    apple: Arc<ApnsState>,
    key: String,
}

struct ApnsState {
    settings: ApnsSettings,
    team_key: DecodingKey,
    /// Latest provider token on each connection, with its time of issue in seconds since 1970.
    last_tokens: Mutex<HashMap<Option<ConnectionNumber>, (String, i64)>>,
    clock: Mutex<Option<Timestamp>>,
    script: Arc<Script>,
    outbox: Arc<Outbox>,
}

#[derive(Clone, Copy)]
struct Refusal(u16, &'static str);

impl fmt::Debug for ApnsStandIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApnsStandIn").field("server", &self.server).finish_non_exhaustive()
    }
}

impl ApnsStandIn {
    pub async fn start(settings: ApnsSettings, outbox: Arc<Outbox>) -> io::Result<ApnsStandIn> {
        let key = settings.key.clone().map_or_else(new_key, Ok)?;
        let pair = KeyPair::from_pem(&key).map_err(io::Error::other)?;
        let team_key =
            DecodingKey::from_ec_pem(pair.public_key_pem().as_bytes()).map_err(io::Error::other)?;
        let http_settings = HttpSettings {
            port: settings.port,
            tls: settings.tls.clone(),
            max_concurrent_streams: settings.max_concurrent_streams,
        };
        let apple = Arc::new(ApnsState {
            settings,
            team_key,
            last_tokens: Mutex::default(),
            clock: Mutex::default(),
            script: Arc::default(),
            outbox,
        });
        let server = HttpServer::start(http_settings, apple.clone()).await?;
        Ok(ApnsStandIn { server, apple, key })
    }

    #[must_use]
    pub fn provider_settings(&self) -> Value {
        json!({
            "environment": "sandbox",
            "baseUrl": self.server.url(),
            "topic": self.apple.settings.topic,
            "teamId": TEAM_ID,
            "keyId": KEY_ID,
            "key": self.key,
        })
    }

    #[must_use]
    pub fn server(&self) -> &HttpServer {
        &self.server
    }

    #[must_use]
    pub fn outbox(&self) -> &Arc<Outbox> {
        &self.apple.outbox
    }

    /// The target of a rule is the device token.
    pub fn script(&self, rule: Rule) {
        self.apple.script.add(rule);
    }

    #[must_use]
    pub fn rules_left(&self) -> usize {
        self.apple.script.left()
    }

    pub fn set_clock(&self, now: Timestamp) {
        *self.apple.clock.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
    }

    pub(crate) fn shared_script(&self) -> Arc<Script> {
        self.apple.script.clone()
    }

    pub async fn stop(self) {
        self.server.stop().await;
    }
}

/// `timestamp` is the time at which the device token became invalid (status 410).
#[must_use]
pub fn refusal(status: u16, reason: &str, timestamp: Option<Timestamp>) -> Response<Bytes> {
    match timestamp {
        Some(at) => http::json(status, &json!({"reason": reason, "timestamp": at.millis()})),
        None => http::json(status, &json!({"reason": reason})),
    }
}

impl Handler for ApnsState {
    fn handle(&self, request: &Request<Bytes>) -> Reply {
        let token = request.uri().path().strip_prefix("/3/device/").unwrap_or_default();
        let reaction = self.script.take(token);
        match &reaction {
            Some(Reaction::Answer(answer)) => return Reply::Answer(answer.clone()),
            Some(Reaction::CutBefore) => return Reply::Cut,
            Some(Reaction::Stall) => return Reply::Stall,
            Some(Reaction::CutAfter) | None => {}
        }
        let now = self.now();
        if let Err(Refusal(status, reason)) = self.check(request, token, now) {
            let timestamp = (status == 410).then_some(now);
            return Reply::Answer(refusal(status, reason, timestamp));
        }
        if self.capture(request, token).is_err() {
            return Reply::Answer(refusal(500, "InternalServerError", None));
        }
        if reaction.is_some() {
            return Reply::Cut;
        }
        let mut taken = http::status(200);
        let id = request.headers().get("apns-id").cloned();
        taken.headers_mut().insert("apns-id", id.unwrap_or(HeaderValue::from_static("")));
        Reply::Answer(taken)
    }
}

impl ApnsState {
    fn capture(&self, request: &Request<Bytes>, token: &str) -> io::Result<()> {
        let payload: Value = serde_json::from_slice(request.body()).unwrap_or_default();
        let text = |path: &str| payload.pointer(path).and_then(Value::as_str).map(str::to_owned);
        let title = text("/aps/alert/title").or_else(|| text("/aps/alert"));
        let mut summary = Summary::of_request(request, title, text("/aps/alert/body"));
        summary.headers.remove("authorization");
        let to = [format!("apns:{token}")];
        self.outbox.keep("mobilePush", &self.settings.topic, &to, request.body().to_vec(), summary)
    }

    #[allow(clippy::disallowed_methods, reason = "a server of its own reads the clock")]
    fn now(&self) -> Timestamp {
        let set = *self.clock.lock().unwrap_or_else(PoisonError::into_inner);
        set.unwrap_or_else(|| {
            let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            Timestamp::from_millis(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
        })
    }
}
