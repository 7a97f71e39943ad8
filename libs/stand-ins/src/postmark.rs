//! Stand-in for Postmark's HTTP API. It accepts one email as JSON per request, and makes the same checks as Postmark.
//!
//! For manual tests, it refuses an email to a recipient such as `406@example.com` with the `ErrorCode` 406.

mod email;

use std::io;
use std::sync::Arc;

use base64::Engine as _;
use hyper::body::Bytes;
use hyper::{Method, Request, Response};
use serde_json::{Value, json};

use crate::http::{self, Handler, HttpServer, HttpSettings, Reaction, Reply, Rule, Script};
use crate::outbox::{Outbox, Summary};
use email::Email;

#[derive(Clone, Default)]
pub struct PostmarkSettings {
    pub http: HttpSettings,
    pub server_token: String,
}

#[derive(Debug)]
pub struct PostmarkStandIn {
    http: HttpServer,
    api: Arc<Api>,
}

#[derive(Debug)]
struct Api {
    server_token: String,
    outbox: Arc<Outbox>,
    script: Script,
}

impl PostmarkStandIn {
    pub async fn start(settings: PostmarkSettings, outbox: Arc<Outbox>) -> io::Result<Self> {
        let api = Arc::new(Api { server_token: settings.server_token, outbox, script: Script::default() });
        Ok(PostmarkStandIn { http: HttpServer::start(settings.http, api.clone()).await?, api })
    }

    #[must_use]
    pub fn http(&self) -> &HttpServer {
        &self.http
    }

    #[must_use]
    pub fn outbox(&self) -> &Arc<Outbox> {
        &self.api.outbox
    }

    /// Appends a rule to the script. The target of a rule is the address in `To`, or the path of a call that
    /// sends no email.
    pub fn script(&self, rule: Rule) {
        self.api.script.add(rule);
    }

    #[must_use]
    pub fn rules_left(&self) -> usize {
        self.api.script.left()
    }
}

impl Handler for Api {
    fn handle(&self, request: &Request<Bytes>) -> Reply {
        let has_token = header(request, "x-postmark-server-token") == Some(&self.server_token);
        if !has_token {
            return Reply::Answer(refused(
                401,
                10,
                "No Account or Server API tokens were supplied, or a wrong one",
            ));
        }
        match (request.method(), request.uri().path()) {
            (&Method::POST, "/email") => self.email(request),
            (&Method::GET, "/server") => self.scripted("/server", || {
                Ok(json!({"ID": 1, "Name": "stand-in", "ApiTokens": [], "DeliveryType": "Live"}))
            }),
            _ => Reply::Answer(http::status(404)),
        }
    }
}

impl Api {
    fn email(&self, request: &Request<Bytes>) -> Reply {
        if header(request, "content-type").is_none_or(|kind| !kind.starts_with("application/json")) {
            return Reply::Answer(refused(422, 409, "JSON required"));
        }
        let email = match Email::read(request.body()) {
            Ok(email) => email,
            Err(problem) => return Reply::Answer(refused(problem.status, problem.code, &problem.message)),
        };
        let Some(first) = email.recipients().first().cloned() else {
            return Reply::Answer(refused(422, 300, "Invalid email request: no recipient"));
        };
        if let Some(code) = code_by_name(&first) {
            return Reply::Answer(refused(422, code, "scripted by the recipient's name"));
        }
        self.scripted(&first, || {
            let summary = Summary::of_request(request, Some(email.subject.clone()), email.text_body.clone());
            let kept =
                self.outbox.keep("email", &email.from, &email.recipients(), request.body().to_vec(), summary);
            kept.map_err(|error| error.to_string())?;
            let id = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(first.as_bytes());
            Ok(json!({
                "To": email.to, "SubmittedAt": "2026-01-02T03:04:05Z", "MessageID": format!("stand-in-{id}"),
                "ErrorCode": 0, "Message": "OK",
            }))
        })
    }

    fn scripted(&self, target: &str, usual: impl FnOnce() -> Result<Value, String>) -> Reply {
        let reaction = self.script.take(target);
        match &reaction {
            Some(Reaction::Answer(answer)) => return Reply::Answer(answer.clone()),
            Some(Reaction::CutBefore) => return Reply::Cut,
            Some(Reaction::Stall) => return Reply::Stall,
            Some(Reaction::CutAfter) | None => {}
        }
        match (usual(), reaction) {
            (Err(problem), _) => Reply::Answer(refused(500, 0, &problem)),
            (Ok(_), Some(_)) => Reply::Cut,
            (Ok(answer), None) => Reply::Answer(http::json(200, &answer)),
        }
    }
}

#[must_use]
pub fn refused(status: u16, code: u32, message: &str) -> Response<Bytes> {
    http::json(status, &json!({"ErrorCode": code, "Message": message}))
}

fn header<'a>(request: &'a Request<Bytes>, name: &str) -> Option<&'a str> {
    request.headers().get(name)?.to_str().ok()
}

fn code_by_name(recipient: &str) -> Option<u32> {
    recipient.split_once('@')?.0.parse().ok().filter(|code| *code > 0)
}
