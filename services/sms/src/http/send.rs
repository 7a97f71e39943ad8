use std::time::Duration;

use domain::content::SmsContent;
use domain::sms::segment::SegmentedText;
use domain::{Answer, Outcome, Problem, Reason};
use reqwest::Url;
use reqwest::header::CONTENT_TYPE;
use serde_json::Value;
use worker::exchange::{Caller, NoReply, Reply};
use worker::{Attempt, Call, Probe, ProviderKind};

use super::exposed;
use super::settings::{HttpSettings, SuccessAnswer};
use super::template::{Values, in_url};
use crate::answers::{
    PrivateTexts, answer_without_reply, blaming_user_if_forbidden, by_status, probe_answer_without_reply,
    redacted, with_retry_after,
};
use crate::connections::{Connections, counted};

/// Maximum length of a provider's message id or code, in bytes.
const LONGEST_ID: usize = 200;
const PROBE_LIMIT: Duration = Duration::from_secs(20);

pub struct Http;

impl ProviderKind for Http {
    type Resources = Connections;
    type Settings = HttpSettings;

    const NAME: &'static str = "http";
    const SECRETS: &'static [&'static str] = &["secretHeaders", "secrets"];
    const EXAMPLE: &'static str = r#"{
      "url": "https://sms.example.com/v1/messages",  may have {to}, {text}, {from}, {id}, {secret:NAME} after its host
      "method": "POST",                POST, PUT or GET
      "headers": {"accept": "application/json"},  optional
      "secretHeaders": {"authorization": "Bearer ..."},  optional; stored encrypted
      "secrets": {"key": "..."},       optional: {secret:key} in url, body and probeUrl; stored encrypted
      "contentType": "application/json",  or application/x-www-form-urlencoded
      "body": "{\"to\":\"{to}\",\"from\":\"{from}\",\"text\":\"{text}\",\"ref\":\"{id}\"}",
      "from": "Shop",                  value of {from}, unless the send sets another sender
      "successStatuses": [200, 202],   optional; default: every 2xx
      "idPointer": "/message/id",      optional: JSON pointer to the provider's id in an answer
      "codePointer": "/error/code",    optional: JSON pointer to a code in an answer, for codes
      "codes": {"invalid_number": "target_gone"},  sent, retry, failed, target_gone, pause_provider or unknown
      "otherCodes": "unknown",         outcome of a success status with another code; unknown is never sent again
      "withoutCode": "sent",           optional: outcome of a success status without a code; docs/providers.md has the default
      "requireId": false,              true: an answer without an id at idPointer is not a success
      "idempotent": false,             true: the provider de-duplicates calls by Idempotency-Key
      "probeUrl": "https://sms.example.com/v1/balance"  optional, for tidings provider test
    }"#;

    fn parse(settings: &Value) -> Result<HttpSettings, Vec<Problem>> {
        HttpSettings::parse(settings)
    }

    fn check_new(settings: &Value) -> Result<(), Vec<Problem>> {
        HttpSettings::parse(settings).and_then(|_| exposed::check(settings))
    }

    fn deduplicates(settings: &HttpSettings) -> bool {
        settings.idempotent
    }

    async fn send(attempt: Attempt<'_, Connections>, settings: &HttpSettings) -> Answer {
        let Attempt { resources: connections, call, input: content } = attempt;
        let answer = send(&connections.caller, call, content, settings).await;
        counted(answer, &SegmentedText::of(&content.text))
    }

    /// Sends a GET to `settings.probeUrl`, with the headers of a message. The test succeeds if the status is 2xx.
    async fn probe(settings: &HttpSettings, probe: &Probe<'_>) -> Result<String, Answer> {
        let Some(url) = &settings.probe_url else {
            return Err(Answer::new(
                Outcome::Failed,
                "no_probe",
                "cannot test this provider without sending a message; set settings.probeUrl to a URL that answers GET with 2xx",
            ));
        };
        let private = PrivateTexts::default().and(settings.secrets.all());
        let caller = probe.caller(PROBE_LIMIT)?;
        let request = caller.client().get(url.clone()).headers(settings.headers.clone());
        let reply = caller.call(request, probe.now).await.map_err(probe_answer_without_reply)?;
        match reply.status {
            200..300 => Ok(format!("settings.probeUrl answered {}", reply.status)),
            status => {
                let words = redacted(&String::from_utf8_lossy(&reply.body), &private);
                Err(Answer::new(by_status(&reply), status.to_string(), words))
            }
        }
    }
}

async fn send(caller: &Caller, call: &Call<'_>, content: &SmsContent, settings: &HttpSettings) -> Answer {
    let number = &call.job.target;
    let id = call.job.delivery_id.to_string();
    let from = content.from.as_ref().or(settings.from.as_ref()).map_or("", String::as_str);
    let values = Values { to: number, text: &content.text, from, id: &id };
    let Ok(url) = Url::parse(&settings.url.render(values, in_url)) else {
        let message = "the URL is not valid with the values of this message";
        return Answer::refused(Reason::InvalidContent, "url", message);
    };
    let mut request = caller.client().request(settings.method.clone(), url).headers(settings.headers.clone());
    if let Some(body) = &settings.body {
        request = request
            .header(CONTENT_TYPE, body.media.name())
            .body(body.template.render(values, body.media.encoding()));
    }
    if settings.idempotent {
        request = request.header("idempotency-key", &id);
    }
    let private = PrivateTexts::of(number, &content.text, from).and(settings.secrets.all());
    match caller.call(request, call.now).await {
        Ok(reply) => answer(&reply, settings, &private),
        Err(no_reply) => {
            let is_open = matches!(no_reply, NoReply::CutShort(_)) && settings.may_accept_despite_refusal();
            let answer = answer_without_reply(no_reply, &private);
            let outcome = if is_open { Outcome::Unknown } else { answer.outcome };
            Answer { outcome: left_open(outcome, settings), ..answer }
        }
    }
}

/// Replaces [`Outcome::Unknown`] with [`Outcome::Repeat`] if the provider de-duplicates calls by their Idempotency-Key.
fn left_open(outcome: Outcome, settings: &HttpSettings) -> Outcome {
    match outcome {
        Outcome::Unknown if settings.idempotent => Outcome::REPEAT,
        outcome => outcome,
    }
}

fn answer(reply: &Reply, settings: &HttpSettings, private: &PrivateTexts) -> Answer {
    let parsed: Option<Value> = serde_json::from_slice(&reply.body).ok();
    let is_json = parsed.is_some();
    let body = parsed.unwrap_or_default();
    let code = settings.code_pointer.as_ref().and_then(|pointer| text_at(&body, pointer));
    let provider_id = settings.id_pointer.as_ref().and_then(|pointer| text_at(&body, pointer));
    let is_success = settings.is_success(reply.status);
    let by_code = code.as_ref().and_then(|code| settings.codes.get(code)).cloned();
    let outcome = match (by_code, is_success) {
        (Some(Outcome::Sent { .. }), _) => Outcome::Sent { provider_id },
        (Some(outcome), _) => with_retry_after(outcome, reply),
        (None, true) => {
            let answer = SuccessAnswer { is_json, has_code: code.is_some(), provider_id };
            with_retry_after(left_open(settings.of_success(&answer), settings), reply)
        }
        // 409: the provider is still processing an earlier call with this Idempotency-Key.
        (None, false) if settings.idempotent && reply.status == 409 => {
            with_retry_after(Outcome::REPEAT, reply)
        }
        (None, false) => with_retry_after(left_open(by_status(reply), settings), reply),
    };
    let words = match outcome {
        Outcome::Sent { .. } => String::new(),
        _ => redacted(&String::from_utf8_lossy(&reply.body), private),
    };
    blaming_user_if_forbidden(
        Answer::new(outcome, code.unwrap_or_else(|| reply.status.to_string()), words),
        reply.status,
    )
}

/// Returns the string, number or boolean at a JSON pointer, as text. Returns None if the value is missing, empty,
/// longer than [`LONGEST_ID`], or contains control characters.
fn text_at(body: &Value, pointer: &str) -> Option<String> {
    let text = match body.pointer(pointer)? {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(flag) => flag.to_string(),
        _ => return None,
    };
    let is_plain = !text.is_empty() && text.len() <= LONGEST_ID && !text.chars().any(char::is_control);
    is_plain.then_some(text)
}
