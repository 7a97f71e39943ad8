use domain::Problem;
use domain::settings::SettingsReader;
use reqwest::{Certificate, Identity, Url};
use serde_json::Value;

use super::token::ProviderToken;

pub(crate) struct ApnsSettings {
    pub(super) base: Url,
    pub(super) topic: String,
    pub(super) auth: Auth,
    pub(super) authorities: Vec<Certificate>,
}

pub(super) enum Auth {
    Token(Box<ProviderToken>),
    Certificate(Identity),
}

impl ApnsSettings {
    /// Returns all problems of the settings. No problem contains a secret.
    pub(crate) fn parse(settings: &Value) -> Result<ApnsSettings, Vec<Problem>> {
        let mut reader = SettingsReader::open(settings)?;
        let base = base(&mut reader);
        let topic = word(&mut reader, "topic");
        let authorities = authorities(&mut reader);
        let auth = auth(&mut reader);
        let settings = base.zip(topic).zip(auth);
        reader.finish(settings.map(|((base, topic), auth)| ApnsSettings { base, topic, auth, authorities }))
    }
}

fn base(reader: &mut SettingsReader) -> Option<Url> {
    let other = reader.url("baseUrl");
    let url = match reader.required("environment")?.as_str() {
        "production" => "https://api.push.apple.com",
        "sandbox" => "https://api.sandbox.push.apple.com",
        _ => {
            reader.problem("environment", "invalid", "must be production or sandbox");
            return None;
        }
    };
    other.or_else(|| Url::parse(url).ok())
}

/// Accepts only text without spaces or control characters, for use in headers and tokens.
fn word(reader: &mut SettingsReader, member: &str) -> Option<String> {
    let text = reader.required(member)?;
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        reader.problem(member, "invalid", "must be printable ASCII without spaces");
        return None;
    }
    Some(text)
}

fn authorities(reader: &mut SettingsReader) -> Vec<Certificate> {
    let Some(pem) = reader.lines("caCertificate") else { return Vec::new() };
    let read = Certificate::from_pem_bundle(pem.as_bytes()).unwrap_or_default();
    if read.is_empty() {
        reader.problem("caCertificate", "invalid", "must be certificates in PEM");
    }
    read
}

fn auth(reader: &mut SettingsReader) -> Option<Auth> {
    let (certificate, key) = (reader.lines("certificate"), reader.lines("key"));
    if key.is_none() {
        reader.problem("key", "required", "is required");
    }
    let Some(certificate) = certificate else {
        let (team_id, key_id) = (word(reader, "teamId"), word(reader, "keyId"));
        let token = ProviderToken::new(team_id?, key_id?, &key?);
        let wrong = |_| reader.problem("key", "invalid", "must be the content of the .p8 file from Apple");
        return token.map_err(wrong).ok().map(|token| Auth::Token(Box::new(token)));
    };
    for member in ["teamId", "keyId"] {
        if reader.text(member).is_some() {
            reader.problem(member, "conflict", "must be absent if settings.certificate is set");
        }
    }
    let identity = Identity::from_pem(format!("{certificate}\n{}", key?).as_bytes());
    let wrong = |_| {
        let says = "must be a certificate in PEM, and settings.key its private key";
        reader.problem("certificate", "invalid", says);
    };
    identity.map_err(wrong).ok().map(Auth::Certificate)
}
