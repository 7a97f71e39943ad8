use domain::Problem;
use domain::settings::SettingsReader;
use domain::sms::keyword::AddedKeywords;
use reqwest::Url;
use secrecy::SecretString;
use serde_json::Value;

use crate::settings::sender as number;

const BASE_URL: &str = "https://api.twilio.com";

#[derive(Clone, Debug)]
pub struct TwilioSettings {
    pub account_sid: String,
    pub login: Login,
    /// Token with which Twilio signs status callbacks.
    pub auth_token: Option<SecretString>,
    pub sender: TwilioSender,
    pub base_url: Url,
}

#[derive(Clone, Debug)]
pub enum Login {
    Account(SecretString),
    Key(String, SecretString),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TwilioSender {
    /// A number, short code or name.
    Number(String),
    /// SID of a messaging service, which chooses the sender.
    Service(String),
}

impl TwilioSettings {
    /// Parses settings in the format of `tidings provider set`. The error lists every problem, without secrets.
    pub fn parse(settings: &Value) -> Result<TwilioSettings, Vec<Problem>> {
        let mut reader = SettingsReader::open(settings)?;
        let account_sid = reader.required("accountSid");
        let account_sid = as_sid(&mut reader, "accountSid", "AC", account_sid);
        let auth_token = reader.text("authToken").map(SecretString::from);
        let login = login(&mut reader, auth_token.clone());
        let sender = sender(&mut reader);
        let base_url = reader.url("baseUrl").or_else(|| Url::parse(BASE_URL).ok());
        // The gateway, which receives Twilio's callbacks, uses the keywords. The worker only checks them.
        AddedKeywords::read(&mut reader);
        let settings = match (account_sid, login, sender, base_url) {
            (Some(account_sid), Some(login), Some(sender), Some(base_url)) => {
                Some(TwilioSettings { account_sid, login, auth_token, sender, base_url })
            }
            _ => None,
        };
        reader.finish(settings)
    }
}

fn login(reader: &mut SettingsReader, auth_token: Option<SecretString>) -> Option<Login> {
    match (sid(reader, "apiKey", "SK"), reader.text("apiSecret").map(SecretString::from), auth_token) {
        (Some(key), Some(secret), _) => Some(Login::Key(key, secret)),
        (None, None, Some(token)) => Some(Login::Account(token)),
        (Some(_), None, _) => {
            reader.problem("apiSecret", "required", "is required with apiKey");
            None
        }
        (None, Some(_), _) => {
            reader.problem("apiKey", "required", "is required with apiSecret");
            None
        }
        (None, None, None) => {
            reader.problem("authToken", "required", "is required, unless apiKey and apiSecret are set");
            None
        }
    }
}

fn sender(reader: &mut SettingsReader) -> Option<TwilioSender> {
    match (reader.text("from"), reader.text("messagingServiceSid")) {
        (Some(_), Some(_)) => {
            reader.problem("from", "invalid", "must be absent if messagingServiceSid is set");
            None
        }
        (None, None) => {
            reader.problem("from", "required", "is required, unless messagingServiceSid is set");
            None
        }
        (None, service) => as_sid(reader, "messagingServiceSid", "MG", service).map(TwilioSender::Service),
        (from, None) => number(reader, "from", from).map(TwilioSender::Number),
    }
}

fn sid(reader: &mut SettingsReader, member: &str, prefix: &str) -> Option<String> {
    let text = reader.text(member);
    as_sid(reader, member, prefix, text)
}

/// Accepts `prefix` and 32 hex digits. Otherwise reports a problem with `member`.
fn as_sid(reader: &mut SettingsReader, member: &str, prefix: &str, text: Option<String>) -> Option<String> {
    let text = text?;
    let is_sid = text
        .strip_prefix(prefix)
        .is_some_and(|rest| rest.len() == 32 && rest.bytes().all(|byte| byte.is_ascii_hexdigit()));
    if !is_sid {
        reader.problem(member, "invalid", &format!("must be {prefix} and 32 hex digits"));
        return None;
    }
    Some(text)
}
