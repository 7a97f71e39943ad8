//! Stand-in for an SMS provider with its own HTTP API.
//!
//! `POST /messages` accepts `{"to","from","text"}` as JSON or as a form. `GET /messages?to=…` accepts the same fields
//! as parameters. Both need `Authorization: Bearer …`, and answer `202 {"message":{"id"}}`. Several calls with the same
//! `Idempotency-Key` create one message. `GET /balance` sends no message.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use domain::sms::number::is_e164;
use hyper::body::Bytes;
use hyper::{Method, Request};
use serde_json::{Value, json};

use crate::http::{Handler, HttpServer, HttpSettings, Reaction, Reply, Rule, Script, json as json_answer};
use crate::outbox::{Outbox, Summary};
use crate::twilio::form::Form;
use crate::twilio::random;

pub const TOKEN: &str = "sms-token";
/// Number that the provider always reports as dead.
const DEAD: &str = "+15005550001";
/// Maximum number of stored idempotency keys.
const KEPT: usize = 100_000;

#[derive(Debug)]
pub struct SmsHttpStandIn {
    server: HttpServer,
    provider: Arc<Provider>,
}

#[derive(Debug)]
struct Provider {
    outbox: Arc<Outbox>,
    script: Script,
    known: Mutex<HashMap<String, String>>,
}

impl SmsHttpStandIn {
    pub async fn start(port: u16, outbox: Arc<Outbox>) -> io::Result<Self> {
        let provider = Arc::new(Provider { outbox, script: Script::default(), known: Mutex::default() });
        let settings = HttpSettings { port, ..HttpSettings::default() };
        Ok(SmsHttpStandIn { server: HttpServer::start(settings, provider.clone()).await?, provider })
    }

    #[must_use]
    pub fn url(&self) -> String {
        self.server.url()
    }

    #[must_use]
    pub fn provider_settings(&self) -> Value {
        json!({
            "url": format!("{}/messages", self.url()),
            "secretHeaders": {"authorization": format!("Bearer {TOKEN}")},
            "body": r#"{"to":"{to}","from":"{from}","text":"{text}","ref":"{id}"}"#,
            "from": "Shop",
            "idPointer": "/message/id",
            "codePointer": "/error/code",
            "codes": {"invalid_number": "target_gone"},
            "idempotent": true,
            "probeUrl": format!("{}/balance", self.url()),
        })
    }

    #[must_use]
    pub fn outbox(&self) -> &Arc<Outbox> {
        &self.provider.outbox
    }

    /// The target of a rule is the number of the recipient.
    pub fn script(&self, rule: Rule) {
        self.provider.script.add(rule);
    }

    #[must_use]
    pub fn requests(&self) -> usize {
        self.server.requests()
    }

    pub async fn stop(self) {
        self.server.stop().await;
    }
}

impl Handler for Provider {
    fn handle(&self, request: &Request<Bytes>) -> Reply {
        let login = request.headers().get("authorization");
        if login.is_none_or(|login| login != format!("Bearer {TOKEN}").as_str()) {
            return error(401, "unauthorized");
        }
        match (request.method(), request.uri().path()) {
            (&Method::GET, "/balance") => Reply::Answer(json_answer(200, &json!({"balance": 1}))),
            (&Method::POST | &Method::PUT | &Method::GET, "/messages") => match Message::read(request) {
                Some(message) => self.take(request, &message),
                None => error(400, "malformed"),
            },
            _ => error(404, "not_found"),
        }
    }
}

struct Message {
    to: String,
    from: String,
    text: String,
}

impl Message {
    fn read(request: &Request<Bytes>) -> Option<Message> {
        let media = request.headers().get("content-type").and_then(|value| value.to_str().ok());
        match (request.method(), media) {
            (&Method::GET, _) => Message::of_form(request.uri().query()?.as_bytes()),
            (_, Some("application/json")) => {
                let body: Value = serde_json::from_slice(request.body()).ok()?;
                let text = |name: &str| body[name].as_str().map(str::to_owned);
                Some(Message { to: text("to")?, from: text("from").unwrap_or_default(), text: text("text")? })
            }
            (_, Some("application/x-www-form-urlencoded")) => Message::of_form(request.body()),
            _ => None,
        }
    }

    fn of_form(form: &[u8]) -> Option<Message> {
        let form = Form::read(form)?;
        let text = |name: &str| form.get(name).map(str::to_owned);
        Some(Message { to: text("to")?, from: text("from").unwrap_or_default(), text: text("text")? })
    }
}

impl Provider {
    fn take(&self, request: &Request<Bytes>, message: &Message) -> Reply {
        let reaction = self.script.take(&message.to);
        match &reaction {
            Some(Reaction::Answer(response)) => return Reply::Answer(response.clone()),
            Some(Reaction::CutBefore) => return Reply::Cut,
            Some(Reaction::Stall) => return Reply::Stall,
            Some(Reaction::CutAfter) | None => {}
        }
        if !is_e164(&message.to) || message.to == DEAD {
            return error(400, "invalid_number");
        }
        let key = request.headers().get("idempotency-key").and_then(|key| key.to_str().ok());
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let id = match key.and_then(|key| known.get(key)) {
            Some(id) => id.clone(),
            None => {
                let summary = Summary::of_request(request, None, Some(message.text.clone()));
                let to = [message.to.clone()];
                if self.outbox.keep("sms", &message.from, &to, request.body().to_vec(), summary).is_err() {
                    return error(500, "not_kept");
                }
                let id = random::hex::<8>();
                if let Some(key) = key.filter(|_| known.len() < KEPT) {
                    known.insert(key.to_owned(), id.clone());
                }
                id
            }
        };
        match reaction {
            Some(_) => Reply::Cut,
            None => Reply::Answer(json_answer(202, &json!({"message": {"id": id}}))),
        }
    }
}

fn error(status: u16, code: &str) -> Reply {
    Reply::Answer(json_answer(status, &json!({"error": {"code": code}})))
}
