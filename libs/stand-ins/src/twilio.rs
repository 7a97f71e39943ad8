//! Stand-in for Twilio's Programmable Messaging API: reading an account, sending messages, and signed status callbacks.
//!
//! It makes the same checks as Twilio, and answers with Twilio's error codes. The magic numbers that Twilio documents
//! for test credentials work here too.

mod callback;
pub(crate) mod form;
pub(crate) mod random;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use domain::sms::number::is_e164;
use hyper::body::Bytes;
use hyper::{Method, Request, Response};
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::http::{Handler, HttpServer, HttpSettings, Reaction, Reply, Rule, Script, json as json_answer};
use crate::outbox::{Outbox, Summary};
use callback::{Callbacks, Report};
pub use callback::{params, signature};
use form::Form;

/// Recipients that are refused, each with Twilio's error code and message.
const MAGIC_TO: [(&str, u32, &str); 5] = [
    ("+15005550001", 21211, "The 'To' number is not a valid phone number."),
    ("+15005550002", 21612, "The 'To' number cannot be reached from the 'From' number."),
    ("+15005550003", 21408, "Permission to send an SMS has not been enabled for the region."),
    ("+15005550004", 21610, "Attempt to send to unsubscribed recipient"),
    ("+15005550009", 21614, "'To' number is not a valid mobile number"),
];
const MAGIC_FROM: [(&str, u32, &str); 3] = [
    ("+15005550001", 21212, "The 'From' number is not a valid phone number."),
    ("+15005550007", 21606, "The 'From' number is not owned by the account."),
    ("+15005550008", 21611, "The 'From' number has an SMS message queue that is full."),
];
/// Prefix of recipients whose messages are reported as undelivered. The digits after the prefix are the error code,
/// from 30000 to 39999.
const UNDELIVERED_PREFIX: &str = "+150055";
const LONGEST_BODY: usize = 1600;
const LONGEST_VALIDITY: u32 = 36_000;
/// Maximum number of messages that are kept for status callbacks. If there are more, the oldest are removed.
const KEPT: usize = 10_000;

#[derive(Clone, Debug)]
pub struct TwilioSettings {
    /// Port to listen on; 0 for a free port.
    pub port: u16,
    pub account_sid: String,
    /// Secret of the account. It also signs callbacks.
    pub auth_token: String,
    /// API key and its secret, accepted instead of the account's.
    pub api_key: (String, String),
    /// Numbers, short codes and names that the account may use as senders.
    pub from: Vec<String>,
    pub services: Vec<String>,
    /// True if status callbacks are sent for every message that requests them. If false, only [`TwilioStandIn::report`]
    /// sends callbacks.
    pub reports: bool,
}

impl Default for TwilioSettings {
    fn default() -> Self {
        TwilioSettings {
            port: 0,
            account_sid: "AC0123456789abcdef0123456789abcdef".to_owned(),
            auth_token: "0123456789abcdef0123456789abcdef".to_owned(),
            api_key: ("SK0123456789abcdef0123456789abcdef".to_owned(), "key-secret".to_owned()),
            from: vec!["+15005550006".to_owned(), "Shop".to_owned()],
            services: vec!["MG0123456789abcdef0123456789abcdef".to_owned()],
            reports: true,
        }
    }
}

#[derive(Debug)]
pub struct TwilioStandIn {
    server: HttpServer,
    account: Arc<Account>,
    stop: DropGuard,
    tasks: TaskTracker,
}

#[derive(Debug)]
struct Account {
    settings: TwilioSettings,
    outbox: Arc<Outbox>,
    script: Arc<Script>,
    callbacks: Callbacks,
    messages: Mutex<Messages>,
}

#[derive(Debug, Default)]
struct Messages {
    known: HashMap<String, Message>,
    order: VecDeque<String>,
}

#[derive(Clone, Debug)]
struct Message {
    to: String,
    from: String,
    callback: Option<String>,
}

impl TwilioStandIn {
    pub async fn start(settings: TwilioSettings, outbox: Arc<Outbox>) -> io::Result<Self> {
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let (callbacks, posting) = Callbacks::new(settings.auth_token.clone());
        tasks.spawn(stop.clone().run_until_cancelled_owned(posting));
        let http = HttpSettings { port: settings.port, ..HttpSettings::default() };
        let account = Arc::new(Account {
            settings,
            outbox,
            script: Arc::default(),
            callbacks,
            messages: Mutex::default(),
        });
        let server = HttpServer::start(http, account.clone()).await?;
        Ok(TwilioStandIn { server, account, stop: stop.drop_guard(), tasks })
    }

    #[must_use]
    pub fn url(&self) -> String {
        self.server.url()
    }

    #[must_use]
    pub fn provider_settings(&self) -> Value {
        let TwilioSettings { account_sid, auth_token, from, .. } = self.settings();
        json!({
            "accountSid": account_sid, "authToken": auth_token, "from": from.first(), "baseUrl": self.url(),
        })
    }

    #[must_use]
    pub fn settings(&self) -> &TwilioSettings {
        &self.account.settings
    }

    #[must_use]
    pub fn outbox(&self) -> &Arc<Outbox> {
        &self.account.outbox
    }

    /// The target of a rule is the number of the recipient.
    pub fn script(&self, rule: Rule) {
        self.account.script.add(rule);
    }

    #[must_use]
    pub fn requests(&self) -> usize {
        self.server.requests()
    }

    /// None if the message does not exist or requests no callbacks.
    #[must_use]
    pub fn callback_of(&self, sid: &str) -> Option<String> {
        self.account.lock().known.get(sid)?.callback.clone()
    }

    /// Sends a status callback of a message, and returns the HTTP status of the answer.
    ///
    /// # Errors
    /// Returns an error if the message does not exist or requests no callbacks, or if the call fails.
    pub async fn report(&self, sid: &str, status: &str, error: Option<u32>) -> io::Result<u16> {
        let message = self.account.lock().known.get(sid).cloned();
        let report = message.and_then(|message| self.account.report(sid, &message, status, error));
        let report = report.ok_or(io::ErrorKind::NotFound)?;
        callback::post(
            &report.url,
            &report.params,
            &signature(&self.account.settings.auth_token, &report.url, &report.params),
        )
        .await
    }

    pub(crate) fn shared_script(&self) -> Arc<Script> {
        self.account.script.clone()
    }

    pub async fn stop(self) {
        self.stop.disarm().cancel();
        self.server.stop().await;
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Handler for Account {
    fn handle(&self, request: &Request<Bytes>) -> Reply {
        let sid = &self.settings.account_sid;
        let path = request.uri().path();
        if !self.is_login(request) {
            return refused(401, 20003, "Authenticate");
        }
        if *request.method() == Method::GET && path == format!("/2010-04-01/Accounts/{sid}.json") {
            return Reply::Answer(json_answer(200, &json!({"sid": sid, "status": "active"})));
        }
        if *request.method() != Method::POST || path != format!("/2010-04-01/Accounts/{sid}/Messages.json") {
            return refused(404, 20404, "The requested resource was not found");
        }
        let is_form = request
            .headers()
            .get("content-type")
            .is_some_and(|media| media == "application/x-www-form-urlencoded");
        match Form::read(request.body()).filter(|_| is_form) {
            Some(form) => self.message(request, &form),
            None => refused(415, 20415, "Unsupported media type"),
        }
    }
}

impl Account {
    fn is_login(&self, request: &Request<Bytes>) -> bool {
        let header = request.headers().get("authorization").and_then(|value| value.to_str().ok());
        let decoded =
            header.and_then(|value| value.strip_prefix("Basic ")).and_then(|text| STANDARD.decode(text).ok());
        let login = decoded.and_then(|login| String::from_utf8(login).ok()).unwrap_or_default();
        let (key, secret) = &self.settings.api_key;
        login == format!("{}:{}", self.settings.account_sid, self.settings.auth_token)
            || login == format!("{key}:{secret}")
    }

    fn message(&self, request: &Request<Bytes>, form: &Form) -> Reply {
        let to = form.get("To").unwrap_or_default();
        let reaction = self.script.take(to);
        match &reaction {
            Some(Reaction::Answer(response)) => return Reply::Answer(response.clone()),
            Some(Reaction::CutBefore) => return Reply::Cut,
            Some(Reaction::Stall) => return Reply::Stall,
            Some(Reaction::CutAfter) | None => {}
        }
        if let Err((code, words)) = self.check(form) {
            return refused(400, code, words);
        }
        let from = form.get("From").or(form.get("MessagingServiceSid")).unwrap_or_default();
        let text = form.get("Body").unwrap_or_default();
        let summary = Summary::of_request(request, None, Some(text.to_owned()));
        if self.outbox.keep("sms", from, &[to.to_owned()], request.body().to_vec(), summary).is_err() {
            return refused(500, 20500, "the message could not be stored");
        }
        let sid = format!("SM{}", random::hex::<16>());
        let callback = form.get("StatusCallback").map(str::to_owned);
        let message = Message { to: to.to_owned(), from: from.to_owned(), callback };
        self.lock().add(sid.clone(), message.clone());
        if self.settings.reports {
            self.report_all(&sid, &message);
        }
        match reaction {
            Some(_) => Reply::Cut,
            None => Reply::Answer(accepted(&sid, to, from, text)),
        }
    }

    fn check(&self, form: &Form) -> Result<(), (u32, &'static str)> {
        let to = form.get("To").unwrap_or_default();
        if !is_e164(to) {
            return Err((21211, "Invalid 'To' Phone Number"));
        }
        match form.get("Body") {
            None | Some("") => return Err((21602, "Message body is required.")),
            Some(body) if body.chars().count() > LONGEST_BODY => {
                return Err((21617, "The concatenated message body exceeds the 1600 character limit."));
            }
            Some(_) => {}
        }
        match (form.get("From"), form.get("MessagingServiceSid")) {
            (None, None) => return Err((21603, "A 'From' phone number is required.")),
            (Some(from), _) => {
                if let Some((_, code, words)) = MAGIC_FROM.iter().find(|(magic, ..)| *magic == from) {
                    return Err((*code, words));
                }
                if !self.settings.from.iter().any(|known| known == from) {
                    return Err((21606, "The 'From' number is not owned by the account."));
                }
            }
            (None, Some(service)) if !self.settings.services.iter().any(|known| known == service) => {
                return Err((21701, "The Messaging Service resource does not exist"));
            }
            (None, Some(_)) => {}
        }
        if form
            .get("StatusCallback")
            .is_some_and(|url| !url.starts_with("http://") && !url.starts_with("https://"))
        {
            return Err((21609, "Invalid 'StatusCallback' URL"));
        }
        let validity = form.get("ValidityPeriod").map(str::parse::<u32>);
        if validity
            .is_some_and(|seconds| !seconds.is_ok_and(|seconds| (1..=LONGEST_VALIDITY).contains(&seconds)))
        {
            return Err((20001, "Invalid 'ValidityPeriod'"));
        }
        match MAGIC_TO.iter().find(|(magic, ..)| *magic == to) {
            Some((_, code, words)) => Err((*code, words)),
            None => Ok(()),
        }
    }

    fn report_all(&self, sid: &str, message: &Message) {
        let code = message.to.strip_prefix(UNDELIVERED_PREFIX).and_then(|code| code.parse::<u32>().ok());
        let code = code.filter(|code| (30_000..40_000).contains(code));
        let last = if code.is_some() { "undelivered" } else { "delivered" };
        for (status, error) in [("sent", None), (last, code)] {
            if let Some(report) = self.report(sid, message, status, error) {
                self.callbacks.send(report);
            }
        }
    }

    fn report(&self, sid: &str, message: &Message, status: &str, error: Option<u32>) -> Option<Report> {
        let error = error.map(|code| code.to_string());
        let mut given = vec![
            ("AccountSid", self.settings.account_sid.as_str()),
            ("ApiVersion", "2010-04-01"),
            ("From", &message.from),
            ("MessageSid", sid),
            ("MessageStatus", status),
            ("SmsSid", sid),
            ("SmsStatus", status),
            ("To", &message.to),
        ];
        given.extend(error.as_deref().map(|code| ("ErrorCode", code)));
        Some(Report { url: message.callback.clone()?, params: params(&given) })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Messages> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Messages {
    fn add(&mut self, sid: String, message: Message) {
        self.order.push_back(sid.clone());
        self.known.insert(sid, message);
        if self.order.len() > KEPT
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

fn accepted(sid: &str, to: &str, from: &str, text: &str) -> Response<Bytes> {
    let body = json!({
        "sid": sid, "status": "queued", "to": to, "from": from, "body": text, "error_code": null, "error_message": null,
    });
    json_answer(201, &body)
}

fn refused(status: u16, code: u32, words: &str) -> Reply {
    Reply::Answer(refusal(status, code, words))
}

#[must_use]
pub fn refusal(status: u16, code: u32, words: &str) -> Response<Bytes> {
    let more = format!("https://www.twilio.com/docs/errors/{code}");
    json_answer(status, &json!({"code": code, "message": words, "more_info": more, "status": status}))
}
