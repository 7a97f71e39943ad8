//! Stand-in for Firebase Cloud Messaging (FCM) and for Google's OAuth server.
//!
//! It refuses every message that Google would refuse, and captures an accepted message before it answers 200. If the
//! registration token is the name of an error, such as `UNREGISTERED`, the message is refused with that error.

mod check;
mod oauth;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{fmt, io};

use domain::Timestamp;
use hyper::body::Bytes;
use hyper::{Method, Request, Response};
use jsonwebtoken::DecodingKey;
use rcgen::{KeyPair, PKCS_RSA_SHA256};
use serde_json::{Value, json};

use crate::http::{self, Handler, HttpServer, HttpSettings, Reaction, Reply, Rule, Script};
use crate::outbox::{Outbox, Summary};

const PROJECT: &str = "demo-project";
const ACCOUNT: &str = "sender@demo-project.iam.gserviceaccount.com";
const KEY_ID: &str = "0123456789abcdef";

/// Error codes that a registration token can name.
const ERRORS: [(u16, &str); 7] = [
    (401, "THIRD_PARTY_AUTH_ERROR"),
    (403, "SENDER_ID_MISMATCH"),
    (404, "UNREGISTERED"),
    (400, "INVALID_ARGUMENT"),
    (429, "QUOTA_EXCEEDED"),
    (500, "INTERNAL"),
    (503, "UNAVAILABLE"),
];

/// Generates the key of a service account.
pub(crate) fn new_key() -> io::Result<String> {
    Ok(KeyPair::generate_for(&PKCS_RSA_SHA256).map_err(io::Error::other)?.serialize_pem())
}

pub struct FcmStandIn {
    server: HttpServer,
    google: Arc<FcmState>,
    key: String,
}

struct FcmState {
    account_key: DecodingKey,
    /// URL of the token endpoint, which assertions must name as their audience. It is set when the server has started.
    token_url: Mutex<String>,
    /// Valid access tokens with their expiry.
    tokens: Mutex<HashMap<String, Timestamp>>,
    lifetime: AtomicU64,
    granted: AtomicUsize,
    sent: AtomicUsize,
    clock: Mutex<Option<Timestamp>>,
    script: Arc<Script>,
    oauth_script: Script,
    outbox: Arc<Outbox>,
}

impl fmt::Debug for FcmStandIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FcmStandIn").field("server", &self.server).finish_non_exhaustive()
    }
}

impl FcmStandIn {
    /// Generates the key of a service account.
    pub async fn start(port: u16, outbox: Arc<Outbox>) -> io::Result<FcmStandIn> {
        FcmStandIn::start_with_key(port, &new_key()?, outbox).await
    }

    /// `key` is the key of the service account, as PEM.
    pub(crate) async fn start_with_key(port: u16, key: &str, outbox: Arc<Outbox>) -> io::Result<FcmStandIn> {
        let pair = KeyPair::from_pem_and_sign_algo(key, &PKCS_RSA_SHA256).map_err(io::Error::other)?;
        let account_key =
            DecodingKey::from_rsa_pem(pair.public_key_pem().as_bytes()).map_err(io::Error::other)?;
        let google = Arc::new(FcmState {
            account_key,
            token_url: Mutex::default(),
            tokens: Mutex::default(),
            lifetime: AtomicU64::new(3_600),
            granted: AtomicUsize::new(0),
            sent: AtomicUsize::new(0),
            clock: Mutex::default(),
            script: Arc::default(),
            oauth_script: Script::default(),
            outbox,
        });
        let settings = HttpSettings { port, ..HttpSettings::default() };
        let server = HttpServer::start(settings, google.clone()).await?;
        *google.token_url.lock().unwrap_or_else(PoisonError::into_inner) = format!("{}/token", server.url());
        Ok(FcmStandIn { server, google, key: key.to_owned() })
    }

    #[must_use]
    pub fn provider_settings(&self) -> Value {
        let url = self.server.url();
        json!({
            "baseUrl": url,
            "serviceAccount": {
                "type": "service_account",
                "project_id": PROJECT,
                "private_key_id": KEY_ID,
                "private_key": self.key,
                "client_email": ACCOUNT,
                "token_uri": format!("{url}/token"),
            },
        })
    }

    #[must_use]
    pub fn server(&self) -> &HttpServer {
        &self.server
    }

    #[must_use]
    pub fn outbox(&self) -> &Arc<Outbox> {
        &self.google.outbox
    }

    /// The target of a rule is the registration token.
    pub fn script(&self, rule: Rule) {
        self.google.script.add(rule);
    }

    pub fn script_oauth(&self, rule: Rule) {
        self.google.oauth_script.add(rule);
    }

    /// Sets the lifetime in seconds of access tokens that are granted from now on.
    pub fn set_lifetime(&self, seconds: u64) {
        self.google.lifetime.store(seconds, Ordering::Relaxed);
    }

    pub fn revoke(&self) {
        self.google.tokens.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    #[must_use]
    pub fn granted(&self) -> usize {
        self.google.granted.load(Ordering::Relaxed)
    }

    #[must_use]
    pub fn rules_left(&self) -> usize {
        self.google.script.left()
    }

    pub fn set_clock(&self, now: Timestamp) {
        *self.google.clock.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
    }

    pub(crate) fn shared_script(&self) -> Arc<Script> {
        self.google.script.clone()
    }

    pub async fn stop(self) {
        self.server.stop().await;
    }
}

/// `code` is FCM's error code; `fields` are the paths of invalid members.
#[must_use]
pub fn refusal(status: u16, code: &str, fields: &[&str]) -> Response<Bytes> {
    let general = match status {
        400 => "INVALID_ARGUMENT",
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        503 => "UNAVAILABLE",
        _ => "INTERNAL",
    };
    let mut details = Vec::new();
    if !code.is_empty() {
        details
            .push(json!({"@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError", "errorCode": code}));
    }
    if !fields.is_empty() {
        let violations: Vec<_> =
            fields.iter().map(|field| json!({"field": field, "description": "It is wrong."})).collect();
        details.push(
            json!({"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": violations}),
        );
    }
    let message = "The stand-in refuses the message.";
    http::json(
        status,
        &json!({"error": {"code": status, "message": message, "status": general, "details": details}}),
    )
}

impl Handler for FcmState {
    fn handle(&self, request: &Request<Bytes>) -> Reply {
        if request.method() != Method::POST {
            return Reply::Answer(refusal(405, "", &[]));
        }
        match request.uri().path() {
            "/token" => match self.oauth_script.take("") {
                Some(Reaction::Answer(answer)) => Reply::Answer(answer),
                Some(Reaction::Stall) => Reply::Stall,
                Some(Reaction::CutBefore | Reaction::CutAfter) => Reply::Cut,
                None => Reply::Answer(self.grant(request)),
            },
            path if path == format!("/v1/projects/{PROJECT}/messages:send") => self.take(request),
            path if path.starts_with("/v1/projects/") => Reply::Answer(refusal(403, "", &[])),
            _ => Reply::Answer(http::status(404)),
        }
    }
}

impl FcmState {
    fn take(&self, request: &Request<Bytes>) -> Reply {
        let body: Value = serde_json::from_slice(request.body()).unwrap_or_default();
        let token = body.pointer("/message/token").and_then(Value::as_str).unwrap_or_default();
        let reaction = self.script.take(token);
        match &reaction {
            Some(Reaction::Answer(answer)) => return Reply::Answer(answer.clone()),
            Some(Reaction::CutBefore) => return Reply::Cut,
            Some(Reaction::Stall) => return Reply::Stall,
            Some(Reaction::CutAfter) | None => {}
        }
        if !self.accepts_token(request) {
            return Reply::Answer(refusal(401, "", &[]));
        }
        if let Some(refused) = check::refused(&body) {
            return Reply::Answer(refused);
        }
        let number = self.sent.fetch_add(1, Ordering::Relaxed) + 1;
        let is_trial = body.get("validate_only") == Some(&json!(true));
        if !is_trial && self.capture(request, &body, token).is_err() {
            return Reply::Answer(refusal(500, "INTERNAL", &[]));
        }
        match reaction {
            Some(_) => Reply::Cut,
            None => Reply::Answer(http::json(
                200,
                &json!({"name": format!("projects/{PROJECT}/messages/{number}")}),
            )),
        }
    }

    fn capture(&self, request: &Request<Bytes>, body: &Value, token: &str) -> io::Result<()> {
        let text = |path: &str| body.pointer(path).and_then(Value::as_str).map(str::to_owned);
        let (title, words) = (text("/message/notification/title"), text("/message/notification/body"));
        let mut summary = Summary::of_request(request, title, words);
        summary.headers.remove("authorization");
        let to = [format!("fcm:{token}")];
        self.outbox.keep("mobilePush", PROJECT, &to, request.body().to_vec(), summary)
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
