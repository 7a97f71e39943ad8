//! An app, as commands show it.

use domain::app_setting::{AppSetting, AppSettings};
use domain::{AppId, SigningAlgorithm, Timestamp, problem};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use store::control::app::App;
use store::control::signing_key::SigningKey;

use crate::listing::rows;
use crate::numbers;

/// An app without its secrets.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", try_from = "AppBody")]
pub(crate) struct AppRow {
    #[serde(flatten)]
    members: Map<String, Value>,
    #[serde(serialize_with = "numbers::write")]
    pub(crate) id: AppId,
    pub(crate) name: String,
    pub(crate) api_key: String,
    pub(crate) development: bool,
    pub(crate) created_at: Timestamp,
    pub(crate) secrets: Vec<SecretRow>,
    pub(crate) signing_keys: Vec<KeyRow>,
    #[serde(skip_serializing)]
    pub(crate) settings: AppSettings,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SecretRow {
    expires_at: Option<Timestamp>,
    /// True if the secret can verify signatures.
    #[serde(skip_serializing)]
    pub(crate) signs: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KeyRow {
    pub(crate) kid: String,
    pub(crate) algorithm: SigningAlgorithm,
    pub(crate) created_at: Timestamp,
}

/// An app in the admin API.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AppBody {
    #[serde(deserialize_with = "numbers::read")]
    id: AppId,
    name: String,
    api_key: String,
    development: bool,
    /// In the syntax of the command line.
    settings: Map<String, Value>,
    secrets: Vec<SecretRow>,
    signing_keys: Vec<KeyRow>,
    created_at: Timestamp,
}

impl From<App> for AppRow {
    fn from(app: App) -> AppRow {
        let settings = AppSettings { guard_addresses: Some(app.guards_addresses()), ..app.settings };
        let secrets = app.secrets.iter();
        AppRow {
            members: settings.to_members(),
            id: app.id,
            name: app.name,
            api_key: app.api_key,
            development: app.development,
            created_at: app.created_at,
            secrets: secrets
                .map(|secret| SecretRow { expires_at: secret.expires_at, signs: !secret.sealed.is_empty() })
                .collect(),
            signing_keys: rows(app.signing_keys),
            settings,
        }
    }
}

impl From<SigningKey> for KeyRow {
    fn from(key: SigningKey) -> KeyRow {
        KeyRow { kid: key.kid, algorithm: key.algorithm, created_at: key.created_at }
    }
}

impl TryFrom<AppBody> for AppRow {
    type Error = String;

    fn try_from(body: AppBody) -> Result<AppRow, String> {
        let settings = settings(&body.settings)?;
        Ok(AppRow {
            members: settings.to_members(),
            id: body.id,
            name: body.name,
            api_key: body.api_key,
            development: body.development,
            created_at: body.created_at,
            secrets: body.secrets,
            signing_keys: body.signing_keys,
            settings,
        })
    }
}

/// Reads settings. Those of a later release are left out.
fn settings(texts: &Map<String, Value>) -> Result<AppSettings, String> {
    let known = texts.iter().filter(|(name, _)| AppSetting::NAMES.contains(&name.as_str()));
    let texts: Vec<_> =
        known.map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default())).collect();
    let parsed = AppSetting::parse_all(&texts).map_err(|problems| problem::joined(&problems))?;
    let columns = parsed.iter().map(|setting| (setting.column().to_owned(), setting.stored()));
    serde_json::from_value(Value::Object(columns.collect())).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn settings_of_a_console_are_those_of_the_database() {
        let texts = [
            "secure-mode=on",
            "rate-limit=500",
            "cors-origins=https://a.example",
            "brand-color=#635bff",
            "address-keys=guarded",
            "keep-sends=default",
        ];
        let given = texts.iter().map(|text| text.split_once('=').unwrap());
        let mut given: Map<String, Value> =
            given.map(|(name, value)| (name.to_owned(), value.into())).collect();
        for name in ["hmac", "require-exp", "disabled"] {
            given.insert(name.to_owned(), "off".into());
        }
        given.insert("token-subject".to_owned(), "either".into());
        given.insert("template-profile".to_owned(), "app".into());
        given.insert("of-a-later-release".to_owned(), "3".into());
        let read = settings(&given).unwrap();
        let shown = read.to_texts();
        for text in texts {
            let (name, value) = text.split_once('=').unwrap();
            assert!(shown.iter().any(|(known, shown)| *known == name && shown == value), "{shown:?}");
        }
        assert!(settings(&Map::new()).unwrap_err().contains("missing field"));
    }
}
