//! The settings of a provider of kind `postmark`.

use domain::Problem;
use secrecy::SecretString;
use serde_json::Value;
use url::Url;

use crate::identity::Identity;
use crate::reader::Reader;

/// The kind of provider that these settings are for.
pub const KIND: &str = "postmark";
const BASE_URL: &str = "https://api.postmarkapp.com";

/// An API over HTTP as Postmark has it.
pub const POSTMARK: worker::Kind = worker::Kind {
    name: KIND,
    secrets: &["serverToken"],
    check: |settings| PostmarkSettings::parse(settings).map(drop),
    example: r#"{
      "serverToken": "...",        kept encrypted; absent, the old one stays
      "messageStream": "outbound",   optional
      "from": "shop@example.com",
      "fromName": "The shop",      optional
      "replyTo": "help@example.com",   optional
      "allowedFrom": ["@example.com"],   optional: senders that a send may name; absent, those of the domain of from
      "baseUrl": "https://api.postmarkapp.com"   optional
    }"#,
};

const MEMBERS: &[&str] =
    &["serverToken", "messageStream", "from", "fromName", "replyTo", "allowedFrom", "baseUrl"];

/// How to call the API, and in whose name.
#[derive(Clone, Debug)]
pub struct PostmarkSettings {
    /// Where the API is.
    pub base_url: Url,
    /// The token of one server there.
    pub token: SecretString,
    /// The stream that emails go over; None leaves the server's usual one.
    pub stream: Option<String>,
    /// In whose name.
    pub identity: Identity,
}

impl PostmarkSettings {
    /// Reads settings as `tidings provider set` takes them.
    ///
    /// # Errors
    /// Every problem found, none of which repeats the token.
    pub fn parse(settings: &Value) -> Result<Self, Vec<Problem>> {
        let mut reader = Reader::open(settings, MEMBERS)?;
        let token = reader.text("serverToken", true).filter(|token| {
            let is_plain = token.bytes().all(|byte| byte.is_ascii_graphic());
            if !is_plain {
                reader.problem("serverToken", "invalid", "must be ASCII without spaces");
            }
            is_plain
        });
        let stream = reader.text("messageStream", false);
        let base_url = match reader.value("baseUrl") {
            Some(_) => reader.url("baseUrl", true),
            None => Url::parse(BASE_URL).ok(),
        };
        let identity = reader.identity();
        let required = token.zip(base_url).zip(identity);
        reader.finish(required.map(|((token, base_url), identity)| PostmarkSettings {
            base_url,
            token: token.into(),
            stream,
            identity,
        }))
    }
}
