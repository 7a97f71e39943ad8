use domain::Problem;
use domain::settings::SettingsReader;
use secrecy::SecretString;
use serde_json::Value;
use url::Url;

use crate::identity::Identity;
use crate::settings::{identity, line};

const BASE_URL: &str = "https://api.postmarkapp.com";

#[derive(Clone, Debug)]
pub struct PostmarkSettings {
    pub base_url: Url,
    pub token: SecretString,
    /// Message stream. None uses the server's default.
    pub stream: Option<String>,
    pub identity: Identity,
}

impl PostmarkSettings {
    /// Parses settings in the format of `tidings provider set`. The error lists every problem, without the token.
    pub fn parse(settings: &Value) -> Result<Self, Vec<Problem>> {
        let mut reader = SettingsReader::open(settings)?;
        let token = reader.required_as("serverToken", line).filter(|token| {
            let is_plain = token.bytes().all(|byte| byte.is_ascii_graphic());
            if !is_plain {
                reader.problem("serverToken", "invalid", "must be ASCII without spaces");
            }
            is_plain
        });
        let stream = line(&mut reader, "messageStream");
        let base_url = reader.url("baseUrl").or_else(|| Url::parse(BASE_URL).ok());
        let identity = identity(&mut reader);
        let required = token.zip(base_url).zip(identity);
        reader.finish(required.map(|((token, base_url), identity)| PostmarkSettings {
            base_url,
            token: token.into(),
            stream,
            identity,
        }))
    }
}
