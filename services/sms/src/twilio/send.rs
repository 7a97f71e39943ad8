use std::time::Duration;

use domain::content::SmsContent;
use domain::sms::segment::SegmentedText;
use domain::sms::twilio::{is_about_number, is_about_sender, outcome};
use domain::{Answer, Outcome, Problem, Reason, provider_override};
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{RequestBuilder, Url};
use secrecy::ExposeSecret as _;
use serde_json::Value;
use url::form_urlencoded::Serializer;
use worker::exchange::{Caller, Reply};
use worker::{Attempt, Call, Probe, ProviderKind};

use super::settings::{Login, TwilioSender, TwilioSettings};
use crate::answers::{
    PrivateTexts, answer_without_reply, blaming_user_if_forbidden, by_status, probe_answer_without_reply,
    redacted, with_path, with_retry_after,
};
use crate::connections::{Connections, counted};

const VERSION: &str = "2010-04-01";
/// Maximum time for which Twilio queues a message that it cannot send yet, in seconds.
const LONGEST_VALIDITY: u64 = 14_400;
const VALIDITY: &str = "ValidityPeriod";
const NO_BASE: &str = "settings.baseUrl cannot be extended with a path";
const PROBE_LIMIT: Duration = Duration::from_secs(20);

pub struct Twilio;

impl ProviderKind for Twilio {
    type Resources = Connections;
    type Settings = TwilioSettings;

    const NAME: &'static str = "twilio";
    const SECRETS: &'static [&'static str] = &["authToken", "apiSecret"];
    const EXAMPLE: &'static str = r#"{
      "accountSid": "AC0123456789abcdef0123456789abcdef",
      "authToken": "...",              stored encrypted; also verifies status callbacks
      "apiKey": "SK0123456789abcdef0123456789abcdef",  optional: logs in with this key instead of the account
      "apiSecret": "...",              with apiKey; stored encrypted
      "from": "+15005550006",          or "messagingServiceSid": "MG..."
      "baseUrl": "https://api.twilio.com",  optional
      "stopKeywords": ["NO MORE"],     optional: in addition to STOP and its equivalents
      "startKeywords": ["AGAIN"]       optional: in addition to START and its equivalents
    }"#;

    fn parse(settings: &Value) -> Result<TwilioSettings, Vec<Problem>> {
        TwilioSettings::parse(settings)
    }

    async fn send(attempt: Attempt<'_, Connections>, settings: &TwilioSettings) -> Answer {
        let Attempt { resources: connections, call, input: content } = attempt;
        let Connections { caller, public_url, .. } = connections;
        let answer = send(caller, public_url.as_deref(), call, content, settings).await;
        counted(answer, &SegmentedText::of(&content.text))
    }

    async fn probe(settings: &TwilioSettings, probe: &Probe<'_>) -> Result<String, Answer> {
        let account = format!("{}.json", settings.account_sid);
        let url = with_path(&settings.base_url, &[VERSION, "Accounts", &account])
            .ok_or_else(|| Answer::new(Outcome::PauseProvider, "settings", NO_BASE))?;
        let caller = probe.caller(PROBE_LIMIT)?;
        let request = login(caller.client().get(url), settings);
        let reply = caller.call(request, probe.now).await.map_err(probe_answer_without_reply)?;
        let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        match (reply.status, body["status"].as_str()) {
            (200, Some("active") | None) => {
                Ok(format!("Twilio accepted the credential of account {}", settings.account_sid))
            }
            (200, Some(status)) => Err(Answer::new(
                Outcome::PauseProvider,
                "account",
                format!("the account is {}", redacted(status, &PrivateTexts::default())),
            )),
            _ => Err(answer(&reply, &PrivateTexts::default(), false)),
        }
    }
}

async fn send(
    caller: &Caller,
    public_url: Option<&str>,
    call: &Call<'_>,
    content: &SmsContent,
    settings: &TwilioSettings,
) -> Answer {
    let extras = match extras(call) {
        Ok(extras) => extras,
        Err(member) => {
            let message = format!("a send must not set {member}");
            return Answer::refused(Reason::InvalidContent, "override", message);
        }
    };
    let callback = public_url.filter(|_| settings.auth_token.is_some()).and_then(|url| callback(url, call));
    let form = form(call, content, settings, callback.as_ref(), &extras);
    let Some(url) =
        with_path(&settings.base_url, &[VERSION, "Accounts", &settings.account_sid, "Messages.json"])
    else {
        return Answer::new(Outcome::PauseProvider, "settings", NO_BASE);
    };
    let request =
        caller.client().post(url).header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(form);
    let from = content.from.as_deref().unwrap_or_default();
    let private = PrivateTexts::of(&call.job.target, &content.text, from);
    match caller.call(login(request, settings), call.now).await {
        Ok(reply) => answer(&reply, &private, content.from.is_some()),
        Err(no_reply) => answer_without_reply(no_reply, &private),
    }
}

/// Returns the send's Twilio parameters for this provider, such as `MaxPrice`. The error is the name of a parameter that a
/// send must not set, or whose value is not a string, number or boolean.
fn extras(call: &Call<'_>) -> Result<Vec<(String, String)>, String> {
    let members = call.job.overrides.get(&call.provider.identifier).into_iter().flatten();
    let mut extras = Vec::new();
    for (name, value) in members.filter(|(name, _)| *name != "_config") {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Bool(flag) => flag.to_string(),
            _ => return Err(name.clone()),
        };
        if provider_override::refusal(Twilio::NAME, name, value).is_some() {
            return Err(name.clone());
        }
        extras.push((name.clone(), text));
    }
    Ok(extras)
}

fn callback(public_url: &str, call: &Call<'_>) -> Option<Url> {
    let app = call.app.to_string();
    let delivery = call.job.delivery_id.to_string();
    let segments = ["v3", "callbacks", "twilio", &app, &call.provider.identifier, &delivery];
    let mut url = with_path(&Url::parse(public_url).ok()?, &segments)?;
    url.set_query(Some(&format!("attempt={}", call.job.attempt)));
    Some(url)
}

fn form(
    call: &Call<'_>,
    content: &SmsContent,
    settings: &TwilioSettings,
    callback: Option<&Url>,
    extras: &[(String, String)],
) -> String {
    let mut form = Serializer::new(String::new());
    form.append_pair("To", &call.job.target).append_pair("Body", &content.text);
    match (&content.from, &settings.sender) {
        (Some(from), _) | (None, TwilioSender::Number(from)) => form.append_pair("From", from),
        (None, TwilioSender::Service(service)) => form.append_pair("MessagingServiceSid", service),
    };
    form.extend_pairs(extras);
    if let Some(callback) = callback {
        form.append_pair("StatusCallback", callback.as_str());
    }
    if let Some(expires_at) = call.job.expires_at.filter(|_| extras.iter().all(|(name, _)| name != VALIDITY))
    {
        let seconds = expires_at.since(call.now).as_secs().clamp(1, LONGEST_VALIDITY);
        form.append_pair(VALIDITY, &seconds.to_string());
    }
    form.finish()
}

fn login(request: RequestBuilder, settings: &TwilioSettings) -> RequestBuilder {
    let request = request.header(ACCEPT, "application/json");
    match &settings.login {
        Login::Account(token) => request.basic_auth(&settings.account_sid, Some(token.expose_secret())),
        Login::Key(key, secret) => request.basic_auth(key, Some(secret.expose_secret())),
    }
}

fn answer(reply: &Reply, private: &PrivateTexts, chose_sender: bool) -> Answer {
    let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    if matches!(reply.status, 200 | 202..300) && body["sid"].as_str().is_none_or(str::is_empty) {
        // Twilio answers 201. Another server has answered, such as a proxy with a login page, perhaps instead of Twilio.
        let words = redacted(&String::from_utf8_lossy(&reply.body), private);
        return Answer::new(Outcome::Unknown, "no_sid", words);
    }
    if (200..300).contains(&reply.status) {
        let sid = body["sid"].as_str().filter(|sid| is_sid(sid)).map(str::to_owned);
        let status = body["status"].as_str().unwrap_or_default();
        return Answer::new(
            Outcome::Sent { provider_id: sid },
            reply.status.to_string(),
            redacted(status, private),
        );
    }
    let code = body["code"].as_u64().and_then(|code| u32::try_from(code).ok());
    let words = redacted(body["message"].as_str().unwrap_or_default(), private);
    let known = code.and_then(outcome).filter(|_| reply.status < 500);
    let outcome = match (known, code) {
        (Some(_), Some(code)) if chose_sender && is_about_sender(code) => Outcome::Failed,
        (Some(outcome), _) => with_retry_after(outcome, reply),
        (None, _) => by_status(reply),
    };
    let is_about_number = code.is_some_and(is_about_number);
    let code = code.map_or_else(|| reply.status.to_string(), |code| code.to_string());
    let answer = Answer::new(outcome, code, words);
    if is_about_number { answer.sparing_provider() } else { blaming_user_if_forbidden(answer, reply.status) }
}

fn is_sid(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}
