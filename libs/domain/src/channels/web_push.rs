//! Web push subscriptions of browsers (RFC 8030).

mod endpoint;
mod host;
mod options;
mod payload;

use base64::Engine;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::Value;

use crate::fields::{Fields, check_plain_json};
use crate::{Problem, Timestamp};

pub use endpoint::{MAX_ENDPOINT, origin_of};
pub use host::PushHost;
pub use options::{MAX_MESSAGE, MAX_TTL, Urgency, WebPushOptions, check, read_ttl, read_urgency};
pub use payload::{MAX_PLAINTEXT, Payload, oversized, too_large};

/// Uncompressed point on P-256, in bytes (SEC 1, section 2.3.3).
const POINT: usize = 65;
const UNCOMPRESSED: u8 = 4;
/// Authentication secret, in bytes (RFC 8291, section 3.2).
const AUTH: usize = 16;
/// Length as base64url text, in bytes.
const MAX_KEY: usize = 256;
/// March 1973 in Unix milliseconds. An earlier time was meant in seconds: browsers have no such subscriptions.
const FIRST_MILLIS: f64 = 100_000_000_000.0;
/// The end of the year 9999, in Unix milliseconds.
const LAST_MILLIS: f64 = 253_402_300_799_999.0;

/// Padding is optional: browsers omit it, but some clients add it.
const BASE64URL: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

#[derive(Clone, PartialEq, Eq)]
pub struct Subscription {
    /// URL at an allowed push service, with scheme and host in lower case and without a default port.
    pub endpoint: String,
    /// An uncompressed point on the curve P-256 (RFC 8291).
    pub p256dh: Vec<u8>,
    /// 16 bytes (RFC 8291, section 3.2).
    pub auth: Vec<u8>,
    /// Time when the browser drops the subscription, if known.
    pub expires_at: Option<Timestamp>,
}

/// Reads a `PushSubscription` in the JSON form of browsers. The endpoint must be at one of `hosts`. `is_on_curve` must return true if an
/// uncompressed point lies on the curve P-256. With `strict`, unknown members are problems.
pub fn parse_subscription(
    body: Value,
    hosts: &[PushHost],
    is_on_curve: impl Fn(&[u8]) -> bool,
    strict: bool,
    problems: &mut Vec<Problem>,
) -> Option<Subscription> {
    check_plain_json("", &body, problems);
    let mut fields = Fields::open("", body, problems)?;
    fields.require("endpoint", problems);
    let endpoint = fields.string("endpoint", MAX_ENDPOINT, problems);
    let endpoint = endpoint.and_then(|text| endpoint::check(&text, hosts, problems));
    let expires_at = read_expiry(&mut fields, problems);
    fields.require("keys", problems);
    let keys = fields.object("keys", problems).map(|mut keys| {
        let is_point = |key: &[u8]| key.len() == POINT && key[0] == UNCOMPRESSED && is_on_curve(key);
        let p256dh = read_key(&mut keys, "p256dh", is_point, "an uncompressed point of P-256", problems);
        let auth = read_key(&mut keys, "auth", |key| key.len() == AUTH, "16 bytes", problems);
        keys.finish(strict, problems);
        p256dh.zip(auth)
    });
    fields.finish(strict, problems);
    let (p256dh, auth) = keys??;
    Some(Subscription { endpoint: endpoint?, p256dh, auth, expires_at })
}

fn read_expiry(fields: &mut Fields, problems: &mut Vec<Problem>) -> Option<Timestamp> {
    let value = fields.take("expirationTime")?;
    let millis = value.as_f64().filter(|millis| (FIRST_MILLIS..=LAST_MILLIS).contains(millis));
    if millis.is_none() {
        let message = "expirationTime must be null or milliseconds since 1970, not seconds";
        problems.push(Problem::new("expirationTime", "invalid_time", message));
    }
    millis.map(|millis| Timestamp::from_millis(millis as i64))
}

fn read_key(
    keys: &mut Fields,
    name: &str,
    is_sound: impl Fn(&[u8]) -> bool,
    wanted: &str,
    problems: &mut Vec<Problem>,
) -> Option<Vec<u8>> {
    keys.require(name, problems);
    let text = keys.string(name, MAX_KEY, problems)?;
    let key = BASE64URL.decode(text).ok().filter(|key| is_sound(key));
    if key.is_none() {
        let path = keys.path(name);
        let message = format!("{path} must be {wanted}, in base64url");
        problems.push(Problem::new(path, "invalid_key", message));
    }
    key
}
