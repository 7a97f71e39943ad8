use domain::Problem;
use domain::settings::SettingsReader;
use jsonwebtoken::EncodingKey;
use reqwest::Url;
use serde::Deserialize;
use serde_json::Value;

const BASE: &str = "https://fcm.googleapis.com";
const TOKEN_URL: &str = "https://oauth2.googleapis.com/token";

pub(crate) struct FcmSettings {
    pub(super) base: Url,
    pub(super) token_url: Url,
    pub(super) account: ServiceAccount,
    pub(super) key: EncodingKey,
}

/// Google's JSON file for a service account.
#[derive(Deserialize)]
pub(super) struct ServiceAccount {
    pub(super) project_id: String,
    pub(super) client_email: String,
    pub(super) private_key_id: Option<String>,
    private_key: String,
    token_uri: Option<String>,
}

impl FcmSettings {
    /// Returns all problems of the settings. No problem contains the secret.
    pub(crate) fn parse(settings: &Value) -> Result<FcmSettings, Vec<Problem>> {
        let mut reader = SettingsReader::open(settings)?;
        let (base, token_url) = (reader.url("baseUrl"), reader.url("tokenUrl"));
        let base = base.or_else(|| Url::parse(BASE).ok());
        let account = reader.take("serviceAccount");
        if account.is_none() {
            reader.problem("serviceAccount", "required", "is required");
        }
        let settings = account.and_then(|account| {
            let read = service_account(account);
            let (account, key) = read.map_err(|says| wrong(&mut reader, says)).ok()?;
            let own = || Url::parse(account.token_uri.as_deref().unwrap_or(TOKEN_URL));
            let token_url = token_url.map_or_else(own, Ok);
            let token_url = token_url.map_err(|_| wrong(&mut reader, "its token_uri must be a URL")).ok()?;
            Some(FcmSettings { base: base?, token_url, account, key })
        });
        reader.finish(settings)
    }
}

fn wrong(reader: &mut SettingsReader, says: &str) {
    let says = format!("must be the JSON file of a service account from Google: {says}");
    reader.problem("serviceAccount", "invalid", &says);
}

fn service_account(file: Value) -> Result<(ServiceAccount, EncodingKey), &'static str> {
    let read: Result<ServiceAccount, _> = match file {
        Value::String(text) => serde_json::from_str(&text),
        value => serde_json::from_value(value),
    };
    let account = read.map_err(|_| "it must have project_id, client_email and private_key")?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':');
    if account.project_id.is_empty() || !account.project_id.bytes().all(is_name) {
        return Err("its project_id must be the name of a project");
    }
    let key = EncodingKey::from_rsa_pem(account.private_key.as_bytes());
    let key = key.map_err(|_| "its private_key must be an RSA key in PEM")?;
    Ok((account, key))
}
