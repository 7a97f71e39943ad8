//! Stand-in for an app's backend that receives webhooks. It accepts a call only if the signature is valid
//! (<https://www.standardwebhooks.com>). It stores accepted calls in order, before it confirms them.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::Request;
use hyper::body::Bytes;
use serde::Serialize;
use serde_json::Value;

use crate::faults::{Faults, Shares};
use crate::faulty::answers;
use crate::http::{Handler, HttpServer, HttpSettings, Reaction, Reply, Rule, Script, status};
use crate::outbox::now;

/// Maximum difference between the timestamp of a call and the receiver's clock, in milliseconds.
const TOLERANCE: u64 = 5 * 60 * 1_000;

pub struct WebhookReceiver {
    server: HttpServer,
    inner: Arc<Inner>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReceivedCall {
    /// Time of receipt, in milliseconds since 1970.
    pub at: i64,
    /// Header `webhook-id`, which is the same in every attempt for a message.
    pub id: String,
    pub path: String,
    pub body: Value,
}

#[derive(Default)]
struct Inner {
    script: Script,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    keys: Vec<Vec<u8>>,
    /// File to which accepted calls are appended. If it is set, calls are not stored in memory.
    list: Option<File>,
    received: Vec<ReceivedCall>,
    attempts: Vec<String>,
    refused: Vec<&'static str>,
}

impl WebhookReceiver {
    /// Starts a receiver that refuses all calls until [`trust`](Self::trust) sets the secrets.
    pub async fn start() -> io::Result<WebhookReceiver> {
        WebhookReceiver::start_with(None).await
    }

    /// Starts a receiver for runs with many calls: before it answers an accepted call, repeated or not, it appends the [`ReceivedCall`] as
    /// JSON to the file at `path`. [`received`](Self::received) and [`attempts`](Self::attempts) stay empty.
    pub async fn listed(path: &Path) -> io::Result<WebhookReceiver> {
        WebhookReceiver::start_with(Some(OpenOptions::new().create(true).append(true).open(path)?)).await
    }

    async fn start_with(list: Option<File>) -> io::Result<WebhookReceiver> {
        let state = Mutex::new(State { list, ..State::default() });
        let inner = Arc::new(Inner { script: Script::default(), state });
        let server = HttpServer::start(HttpSettings::default(), inner.clone()).await?;
        Ok(WebhookReceiver { server, inner })
    }

    /// URL of the endpoint at `path`, which must begin with a slash.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        self.server.url() + path
    }

    /// Sets the secrets (`whsec_…`). From now on, calls must be signed with one of them.
    ///
    /// # Panics
    /// Panics if a text is not a secret.
    #[allow(clippy::panic, reason = "this is how a test fails")]
    pub fn trust(&self, secrets: &[&str]) {
        let key = |secret: &&str| match secret.strip_prefix("whsec_").map(|text| STANDARD.decode(text)) {
            Some(Ok(key)) => key,
            _ => panic!("not a webhook secret"),
        };
        self.inner.lock().keys = secrets.iter().map(key).collect();
    }

    /// The target of a rule is the path of the call.
    pub fn script(&self, rule: Rule) {
        self.inner.script.add(rule);
    }

    /// Makes calls fail at random from now on. `seed` and `shares` determine which calls fail. Ignores `shares.gone`, because
    /// Tidings would not call the endpoint again after a 410.
    pub fn fail_by_chance(&self, seed: u64, shares: Shares) {
        let faults = Arc::new(Faults::new(seed, Shares { gone: 0.0, ..shares }));
        self.script(Rule::by_chance(faults, answers([503, 429, 410, 400, 403].map(status))));
    }

    #[must_use]
    pub fn rules_left(&self) -> usize {
        self.inner.script.left()
    }

    /// Accepted calls in order, without repeated calls for the same message.
    #[must_use]
    pub fn received(&self) -> Vec<ReceivedCall> {
        let mut seen = BTreeSet::new();
        let state = self.inner.lock();
        state.received.iter().filter(|received| seen.insert(received.id.clone())).cloned().collect()
    }

    /// Number of accepted calls, including repeated ones.
    #[must_use]
    pub fn count(&self) -> usize {
        self.inner.lock().received.len()
    }

    /// Forgets all accepted calls. Returns their ids, also those of repeated ones.
    #[must_use]
    pub fn drain(&self) -> Vec<String> {
        let mut state = self.inner.lock();
        state.attempts.clear();
        std::mem::take(&mut state.received).into_iter().map(|call| call.id).collect()
    }

    pub fn clear(&self) {
        let mut state = self.inner.lock();
        state.received.clear();
        state.attempts.clear();
    }

    /// Header `webhook-id` of every correctly signed call in order, including calls that failed because of a rule.
    #[must_use]
    pub fn attempts(&self) -> Vec<String> {
        self.inner.lock().attempts.clone()
    }

    /// Reasons why calls were refused, such as a wrong signature.
    #[must_use]
    pub fn refused(&self) -> Vec<&'static str> {
        self.inner.lock().refused.clone()
    }

    pub async fn stop(self) {
        self.server.stop().await;
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handler for Inner {
    fn handle(&self, request: &Request<Bytes>) -> Reply {
        let mut state = self.lock();
        let received = match verify(request, &state.keys) {
            Ok(received) => received,
            Err(problem) => {
                state.refused.push(problem);
                return Reply::Answer(status(401));
            }
        };
        if state.list.is_none() {
            state.attempts.push(received.id.clone());
        }
        let reaction = self.script.take(request.uri().path());
        match reaction {
            Some(Reaction::Answer(answer)) => Reply::Answer(answer),
            Some(Reaction::CutBefore) => Reply::Cut,
            Some(Reaction::Stall) => Reply::Stall,
            None | Some(Reaction::CutAfter) => match (state.take(received), reaction) {
                (Err(_), _) => Reply::Answer(status(500)),
                (Ok(()), None) => Reply::Answer(status(204)),
                (Ok(()), Some(_)) => Reply::Cut,
            },
        }
    }
}

impl State {
    fn take(&mut self, received: ReceivedCall) -> io::Result<()> {
        let Some(list) = &mut self.list else {
            self.received.push(received);
            return Ok(());
        };
        let mut line = serde_json::to_vec(&received)?;
        line.push(b'\n');
        list.write_all(&line)
    }
}

fn verify(request: &Request<Bytes>, keys: &[Vec<u8>]) -> Result<ReceivedCall, &'static str> {
    let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
    let id = header("webhook-id").filter(|id| !id.is_empty()).ok_or("no webhook-id")?;
    let timestamp = header("webhook-timestamp").ok_or("no webhook-timestamp")?;
    let signatures = header("webhook-signature").ok_or("no webhook-signature")?;
    let seconds: i64 = timestamp.parse().map_err(|_| "webhook-timestamp is not a number")?;
    let at = now().millis();
    if at.abs_diff(seconds.saturating_mul(1_000)) > TOLERANCE {
        return Err("webhook-timestamp is too far away");
    }
    if request.method() != hyper::Method::POST || header("content-type") != Some("application/json") {
        return Err("not a POST of JSON");
    }
    let signed = [id.as_bytes(), b".", timestamp.as_bytes(), b".", request.body()].concat();
    let tags: Vec<Vec<u8>> = signatures
        .split(' ')
        .filter_map(|signature| signature.strip_prefix("v1,"))
        .filter_map(|tag| STANDARD.decode(tag).ok())
        .collect();
    let holds = |key: &Vec<u8>| {
        let key = hmac::Key::new(hmac::HMAC_SHA256, key);
        tags.iter().any(|tag| hmac::verify(&key, &signed, tag).is_ok())
    };
    if !keys.iter().any(holds) {
        return Err("no signature is valid");
    }
    let body = serde_json::from_slice(request.body()).map_err(|_| "the body is not JSON")?;
    Ok(ReceivedCall { at, id: id.to_owned(), path: request.uri().path().to_owned(), body })
}
