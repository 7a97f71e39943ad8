//! Providers with any HTTP API. The settings define the requests and the meaning of the responses.

mod exposed;
pub mod settings;
pub mod template;

use domain::content::SmsContent;
use domain::{Answer, Outcome, Timestamp};
use reqwest::Url;
use reqwest::header::CONTENT_TYPE;
use serde_json::Value;
use worker::exchange::{Caller, Reply, Silence};
use worker::{Call, Provider};

use crate::answers::{
    Private, by_evidence, by_status, local_answer, of_silence, of_silent_probe, redacted, unusable, waiting,
};
use settings::HttpSettings;
use template::{Values, in_url};

/// Maximum length of a provider's message id or code, in bytes.
const LONGEST_ID: usize = 200;

/// Sends one message.
pub(crate) async fn send(
    caller: &Caller,
    call: &Call<'_>,
    content: &SmsContent,
    settings: &HttpSettings,
) -> Answer {
    let number = &call.job.target;
    let id = call.job.delivery_id.to_string();
    let from = content.from.as_ref().or(settings.from.as_ref()).map_or("", String::as_str);
    let values = Values { to: number, text: &content.text, from, id: &id };
    let Ok(url) = Url::parse(&settings.url.render(values, in_url)) else {
        return local_answer(Outcome::Failed, "url", "the URL cannot carry this message");
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
    let private = Private::of(number, &content.text, from).and(settings.secrets.all());
    match caller.call(request, call.now).await {
        Ok(reply) => answer(&reply, settings, &private),
        Err(silence) => {
            let is_open = matches!(silence, Silence::CutShort(_)) && settings.may_accept_despite_refusal();
            let answer = of_silence(silence, &private);
            let outcome = if is_open { Outcome::Unknown } else { answer.outcome };
            Answer { outcome: left_open(outcome, settings), ..answer }
        }
    }
}

/// Returns true if this is an `http` provider that de-duplicates calls by their Idempotency-Key, or one with invalid
/// settings.
pub(crate) fn is_idempotent(provider: &Provider) -> bool {
    let parsed = HttpSettings::parse(&provider.settings);
    provider.kind == settings::HTTP.name && parsed.map_or(true, |settings| settings.idempotent)
}

/// Makes an unknown outcome repeatable if the provider de-duplicates calls by their key.
fn left_open(outcome: Outcome, settings: &HttpSettings) -> Outcome {
    match outcome {
        Outcome::Unknown if settings.idempotent => Outcome::REPEAT,
        outcome => outcome,
    }
}

fn answer(reply: &Reply, settings: &HttpSettings, private: &Private) -> Answer {
    let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    let code = settings.code_pointer.as_ref().and_then(|pointer| text_at(&body, pointer));
    let provider_id = settings.id_pointer.as_ref().and_then(|pointer| text_at(&body, pointer));
    let is_success = settings.is_success(reply.status);
    let by_code = code.as_ref().and_then(|code| settings.codes.get(code)).cloned();
    let outcome = match (by_code, is_success) {
        (Some(Outcome::Sent { .. }), _) | (None, true) => Outcome::Sent { provider_id },
        (Some(outcome), _) => waiting(outcome, reply),
        // The provider is still processing an earlier call for this message.
        (None, false) if settings.idempotent && reply.status == 409 => waiting(Outcome::REPEAT, reply),
        (None, false) => waiting(left_open(by_status(reply), settings), reply),
    };
    let words = match outcome {
        Outcome::Sent { .. } => String::new(),
        _ => redacted(&String::from_utf8_lossy(&reply.body), private),
    };
    by_evidence(Answer::new(outcome, code.unwrap_or_else(|| reply.status.to_string()), words), reply.status)
}

/// String, number or boolean at a JSON pointer, as text. None if it is missing, empty, longer than [`LONGEST_ID`], or
/// contains control characters.
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

/// Calls `settings.probeUrl` with GET and the headers of a message; expects a 2xx.
pub(crate) async fn probe(caller: &Caller, provider: &Provider, now: Timestamp) -> Result<String, Answer> {
    let settings = HttpSettings::parse(&provider.settings).map_err(|problems| unusable(&problems))?;
    let Some(url) = settings.probe_url else {
        return Err(local_answer(
            Outcome::Failed,
            "no_probe",
            "cannot test this provider without sending a message; set settings.probeUrl to a URL that answers GET with 2xx",
        ));
    };
    let private = Private::default().and(settings.secrets.all());
    let request = caller.client().get(url).headers(settings.headers);
    let reply = caller.call(request, now).await.map_err(of_silent_probe)?;
    match reply.status {
        200..300 => Ok(format!("settings.probeUrl answered {}", reply.status)),
        status => {
            let words = redacted(&String::from_utf8_lossy(&reply.body), &private);
            Err(Answer::new(by_status(&reply), status.to_string(), words))
        }
    }
}
