use std::collections::BTreeMap;
use std::sync::Arc;

use domain::settings::SettingsReader;
use domain::{Outcome, Problem};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use secrecy::SecretString;
use serde_json::Value;

use super::template::{Encoding, Secrets, Template, Values, in_form, in_json, in_url};
use crate::settings::sender;

/// Headers that the worker sets. Settings must not contain them.
const OWN_HEADERS: [&str; 7] = [
    "host",
    "content-length",
    "content-type",
    "transfer-encoding",
    "connection",
    "idempotency-key",
    "expect",
];
const OUTCOMES: [(&str, Outcome); 6] = [
    ("sent", Outcome::Sent { provider_id: None }),
    ("retry", Outcome::RETRY),
    ("failed", Outcome::Failed),
    ("target_gone", Outcome::GONE),
    ("pause_provider", Outcome::PauseProvider),
    ("unknown", Outcome::Unknown),
];
/// Values with special characters, to check that a template stays valid whatever a message contains.
const NASTY: Values<'_> = Values { to: "+4915112345678", text: "\"\\{to}&=%\n", from: "a\"b", id: "id" };

#[derive(Clone, Debug)]
pub struct HttpSettings {
    pub url: Template,
    pub method: Method,
    pub headers: HeaderMap,
    pub body: Option<Body>,
    pub from: Option<String>,
    /// HTTP statuses of an accepted message. If the list is empty, every 2xx status means that the message was accepted.
    pub success: Vec<u16>,
    /// JSON pointer to the provider's message id in a response.
    pub id_pointer: Option<String>,
    pub code_pointer: Option<String>,
    pub codes: BTreeMap<String, Outcome>,
    /// Outcome of an answer with a success status and a code that `codes` lacks.
    pub other_codes: Outcome,
    /// Outcome of an answer with a success status and without a code. None: [`HttpSettings::of_success`] decides.
    pub without_code: Option<Outcome>,
    /// True if an answer without an id never means that the message was accepted.
    pub require_id: bool,
    /// True if the provider de-duplicates calls by their Idempotency-Key.
    pub idempotent: bool,
    /// URL that `tidings provider test` calls with GET. The call must not send a message.
    pub probe_url: Option<Url>,
    /// Secrets for the placeholders in the URL, the body and the probe URL.
    pub(crate) secrets: Arc<Secrets>,
}

#[derive(Clone, Debug)]
pub struct SuccessAnswer {
    pub is_json: bool,
    pub has_code: bool,
    pub provider_id: Option<String>,
}

#[derive(Clone, Debug)]
pub struct Body {
    pub media: Media,
    pub template: Template,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    Json,
    Form,
}

impl Media {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Media::Json => "application/json",
            Media::Form => "application/x-www-form-urlencoded",
        }
    }

    pub(crate) fn encoding(self) -> Encoding {
        match self {
            Media::Json => in_json,
            Media::Form => in_form,
        }
    }
}

impl HttpSettings {
    /// Returns true if a response with an error status may still mean that the message was sent, because a code in `codes`
    /// means `sent` or `unknown`.
    #[must_use]
    pub fn may_accept_despite_refusal(&self) -> bool {
        let leaves_open = |outcome: &Outcome| matches!(outcome, Outcome::Sent { .. } | Outcome::Unknown);
        self.codes.values().any(leaves_open)
    }

    /// Parses settings in the format of `tidings provider set`. The error lists every problem, without secrets.
    pub fn parse(settings: &Value) -> Result<HttpSettings, Vec<Problem>> {
        let mut reader = SettingsReader::open(settings)?;
        let secrets = secrets(&mut reader);
        let url = url(&mut reader, &secrets);
        let method = reader
            .choice_or_first("method", &[("POST", "POST"), ("PUT", "PUT"), ("GET", "GET")])
            .unwrap_or("POST");
        let mut headers = HeaderMap::new();
        read_headers(&mut reader, "headers", false, &mut headers);
        read_headers(&mut reader, "secretHeaders", true, &mut headers);
        let body = body(&mut reader, method == "GET", &secrets);
        if let Some(url) = url.as_ref().filter(|_| reader.is_sound()) {
            names_text_and_number(&mut reader, url, body.as_ref());
        }
        let from = reader.text("from");
        let from = sender(&mut reader, "from", from);
        let success = statuses(&mut reader);
        let id_pointer = pointer(&mut reader, "idPointer");
        let code_pointer = pointer(&mut reader, "codePointer");
        let codes = codes(&mut reader, code_pointer.is_some());
        let other_codes = outcome(&mut reader, "otherCodes", code_pointer.is_some());
        let without_code = outcome(&mut reader, "withoutCode", code_pointer.is_some());
        let require_id = reader.flag("requireId", false);
        if require_id && id_pointer.is_none() {
            reader.problem("idPointer", "required", "is required with requireId");
        }
        let idempotent = reader.flag("idempotent", false);
        let probe_url = probe_url(&mut reader, &secrets);
        let method = Method::from_bytes(method.as_bytes()).unwrap_or(Method::POST);
        let settings = url.map(|url| HttpSettings {
            url,
            method,
            headers,
            body,
            from,
            success,
            id_pointer,
            code_pointer,
            codes,
            other_codes: other_codes.unwrap_or(Outcome::Unknown),
            without_code,
            require_id,
            idempotent,
            probe_url,
            secrets,
        });
        reader.finish(settings)
    }

    /// Rates a success status. An answer that is not in the form of the settings never counts as success: a proxy may have answered with a
    /// login page.
    #[must_use]
    pub fn of_success(&self, answer: &SuccessAnswer) -> Outcome {
        let sent = || Outcome::Sent { provider_id: answer.provider_id.clone() };
        let has_id = answer.provider_id.is_some();
        if self.require_id && !has_id {
            return Outcome::Unknown;
        }
        if answer.has_code && !self.codes.is_empty() {
            return as_sent(&self.other_codes, sent);
        }
        if let Some(outcome) = &self.without_code {
            return as_sent(outcome, sent);
        }
        let has_pointers = self.id_pointer.is_some() || self.code_pointer.is_some();
        let is_accepted = if has_pointers && !answer.is_json {
            false
        } else if self.codes.values().any(|outcome| !matches!(outcome, Outcome::Sent { .. })) {
            // The codes describe refusals. If one of them also describes success, only an id shows that there was no refusal.
            let describes_success =
                self.codes.values().any(|outcome| matches!(outcome, Outcome::Sent { .. }));
            has_id || self.id_pointer.is_none() && !describes_success
        } else {
            // Without codes, the status decides. If all codes mean success, an answer needs one of them.
            self.codes.is_empty()
        };
        if is_accepted { sent() } else { Outcome::Unknown }
    }

    #[must_use]
    pub fn is_success(&self, status: u16) -> bool {
        if self.success.is_empty() { (200..300).contains(&status) } else { self.success.contains(&status) }
    }
}

/// Reads the URL, whose host must not contain placeholders, so that no value of a message can change which host is called.
fn url(reader: &mut SettingsReader, secrets: &Arc<Secrets>) -> Option<Template> {
    let text = reader.required("url")?;
    let template = Template::new(text.as_str(), secrets);
    has_its_secrets(reader, "url", &template);
    let authority =
        text.split_once("://").map(|(_, rest)| rest.split(['/', '?', '#']).next().unwrap_or_default());
    let parsed = Url::parse(&template.render(NASTY, in_url)).ok();
    let is_sound = parsed.is_some_and(|url| {
        matches!(url.scheme(), "http" | "https") && url.username().is_empty() && url.password().is_none()
    });
    if !is_sound || authority.is_none_or(|authority| authority.contains('{')) {
        reader.problem(
            "url",
            "invalid",
            "must be a URL that begins with https:// or http://, without a login, with {…} only after its host",
        );
        return None;
    }
    Some(template)
}

fn secrets(reader: &mut SettingsReader) -> Arc<Secrets> {
    let mut named = Vec::new();
    for (name, value) in reader.texts("secrets") {
        let is_name =
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !is_name || value.is_empty() || value.chars().any(char::is_control) {
            reader.problem(
                "secrets",
                "invalid",
                "must be names of letters, digits and _ with values of one line",
            );
        }
        named.push((name, SecretString::from(value)));
    }
    Arc::new(named.into_iter().collect())
}

fn has_its_secrets(reader: &mut SettingsReader, member: &str, template: &Template) {
    if !template.missing().is_empty() {
        reader.problem(member, "unknown_secret", "has a {secret:NAME} that is missing in settings.secrets");
    }
}

fn probe_url(reader: &mut SettingsReader, secrets: &Arc<Secrets>) -> Option<Url> {
    let text = reader.text("probeUrl")?;
    let template = Template::new(text.as_str(), secrets);
    has_its_secrets(reader, "probeUrl", &template);
    let host = text.split_once("://").map(|(_, rest)| rest.split(['/', '?', '#']).next().unwrap_or_default());
    let url = Url::parse(&template.render(NASTY, in_url)).ok().filter(|url| {
        let is_open = url.username().is_empty() && url.password().is_none();
        matches!(url.scheme(), "http" | "https") && is_open && host.is_some_and(|host| !host.contains('{'))
    });
    if url.is_none() {
        let says = "must be a URL that begins with https:// or http://, without a login";
        reader.problem("probeUrl", "invalid", says);
    }
    url
}

fn read_headers(reader: &mut SettingsReader, member: &str, are_secret: bool, headers: &mut HeaderMap) {
    for (name, value) in reader.texts(member) {
        let parsed = HeaderName::try_from(name.as_str()).ok().zip(HeaderValue::try_from(value).ok());
        match parsed {
            Some((name, mut value)) if !OWN_HEADERS.contains(&name.as_str()) => {
                value.set_sensitive(are_secret);
                headers.insert(name, value);
            }
            Some(_) => {
                reader.problem(&format!("{member}.{name}"), "invalid", "must not be set");
            }
            // The invalid name may be a misplaced secret, so the problem does not contain it.
            None => reader.problem(member, "invalid", "must be header names with their values"),
        }
    }
}

fn body(reader: &mut SettingsReader, has_none: bool, secrets: &Arc<Secrets>) -> Option<Body> {
    let media = reader.choice_or_first(
        "contentType",
        &[(Media::Json.name(), Media::Json), (Media::Form.name(), Media::Form)],
    );
    let text = reader.lines("body");
    match (text, has_none) {
        (Some(_), true) => {
            reader.problem("body", "invalid", "must be absent if the method is GET");
            None
        }
        (None, false) => {
            reader.problem("body", "required", "is required, unless the method is GET");
            None
        }
        (None, true) => None,
        (Some(text), false) => {
            let template = Template::new(text, secrets);
            has_its_secrets(reader, "body", &template);
            let media = media?;
            let rendered = template.render(NASTY, media.encoding());
            if media == Media::Json && serde_json::from_str::<Value>(&rendered).is_err() {
                reader.problem(
                    "body",
                    "invalid",
                    "must be JSON, with {to}, {text}, {from}, {id} only inside strings",
                );
                return None;
            }
            Some(Body { media, template })
        }
    }
}

fn names_text_and_number(reader: &mut SettingsReader, url: &Template, body: Option<&Body>) {
    for place in ["{to}", "{text}"] {
        if !url.has(place) && !body.is_some_and(|body| body.template.has(place)) {
            let member = if body.is_some() { "body" } else { "url" };
            reader.problem(member, "invalid", &format!("must contain {place}"));
        }
    }
}

fn statuses(reader: &mut SettingsReader) -> Vec<u16> {
    let listed = reader.list("successStatuses");
    let statuses: Option<Vec<u16>> = listed
        .iter()
        .map(|status| status.as_u64().and_then(|status| u16::try_from(status).ok()))
        .map(|status| status.filter(|status| (200..300).contains(status)))
        .collect();
    statuses.unwrap_or_else(|| {
        reader.problem("successStatuses", "invalid", "must be a list of numbers from 200 to 299");
        Vec::new()
    })
}

fn pointer(reader: &mut SettingsReader, member: &str) -> Option<String> {
    let text = reader.text(member)?;
    if !text.starts_with('/') {
        reader.problem(member, "invalid", "must be a JSON pointer such as /message/id (RFC 6901)");
        return None;
    }
    Some(text)
}

fn as_sent(outcome: &Outcome, sent: impl FnOnce() -> Outcome) -> Outcome {
    if matches!(outcome, Outcome::Sent { .. }) { sent() } else { outcome.clone() }
}

fn outcome(reader: &mut SettingsReader, member: &str, has_pointer: bool) -> Option<Outcome> {
    let word = reader.text(member)?;
    if !has_pointer {
        reader.problem("codePointer", "required", &format!("is required with {member}"));
    }
    let known = OUTCOMES.iter().find(|(known, _)| *known == word);
    if known.is_none() {
        let words = OUTCOMES.map(|(word, _)| word).join(", ");
        reader.problem(member, "invalid", &format!("must be one of {words}"));
    }
    known.map(|(_, outcome)| outcome.clone())
}

fn codes(reader: &mut SettingsReader, has_pointer: bool) -> BTreeMap<String, Outcome> {
    let mut codes = BTreeMap::new();
    for (code, word) in reader.texts("codes") {
        match OUTCOMES.iter().find(|(known, _)| *known == word) {
            Some((_, outcome)) => drop(codes.insert(code, outcome.clone())),
            None => {
                let words = OUTCOMES.map(|(word, _)| word).join(", ");
                reader.problem(&format!("codes.{code}"), "invalid", &format!("must be one of {words}"));
            }
        }
    }
    if !codes.is_empty() && !has_pointer {
        reader.problem("codePointer", "required", "is required with codes");
    }
    codes
}
