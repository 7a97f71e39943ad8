//! Web push subscriptions of browsers (RFC 8030).

mod endpoint;
mod host;
mod options;
mod payload;

use base64::Engine;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Value, json};

use crate::body::Body;
use crate::body::kind::{As, Nested, Text, bytes, with_pattern};
use crate::fields::{Fields, check_plain_json};
use crate::{Problem, Timestamp};

pub use endpoint::{MAX_ENDPOINT, origin_of};
pub use host::PushHost;
pub(crate) use options::WebPushBody;
pub use options::{MAX_MESSAGE, MAX_TTL, Urgency, WebPushOptions, check, read_ttl, read_urgency};
pub use payload::{MAX_PLAINTEXT, Payload, cut, oversized, too_large};

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

crate::body! {
    /// A browser's `PushSubscription`.
    pub struct SubscriptionBody as "Subscription" {
        /// `https` URL on port 443 of a push service that the service's configuration allows.
        required endpoint: As<Url, Text<MAX_ENDPOINT>>,
        /// Time of expiry in milliseconds since 1970.
        optional expiration_time as "expirationTime": Expiry,
        required keys: Nested<SubscriptionKeys>,
    }
    example {
        "endpoint": "https://fcm.googleapis.com/fcm/send/eC2bPHLT7wU", "expirationTime": null,
        "keys": {
            "p256dh": "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
            "auth": "BTBZMqHH6r4Tts7J_aSIgg",
        },
    }
}

crate::body! {
    /// Keys of the subscription, in base64url with or without padding.
    struct SubscriptionKeys {
        /// An uncompressed point of P-256.
        required p256dh: As<PointText, Text<MAX_KEY>>,
        /// 16 bytes.
        required auth: As<AuthText, Text<MAX_KEY>>,
    }
}

crate::schemas! {
    Url = |_| with_pattern(bytes(0, MAX_ENDPOINT), "^https?://[!-~]+$");
    /// A point in base64url.
    PointText = |_| with_pattern(json!({"type": "string"}), "^[A-Za-z0-9_-]{87}=?$");
    /// An authentication secret in base64url.
    AuthText = |_| with_pattern(json!({"type": "string"}), "^[A-Za-z0-9_-]{22}(==)?$");
}

/// A time in Unix milliseconds.
#[derive(Debug)]
struct Expiry;

crate::kinds! {
    Expiry, () => Timestamp, read_expiry,
        |_| json!({"type": "number", "format": "double", "minimum": 0, "maximum": LAST_MILLIS as i64});
}

fn read_expiry(fields: &mut Fields, key: &'static str, problems: &mut Vec<Problem>) -> Option<Timestamp> {
    let value = fields.take(key)?;
    let millis = value.as_f64().filter(|millis| (FIRST_MILLIS..=LAST_MILLIS).contains(millis));
    if millis.is_none() {
        let message = "expirationTime must be null or milliseconds since 1970, not seconds";
        problems.push(Problem::new("expirationTime", "invalid_time", message));
    }
    millis.map(|millis| Timestamp::from_millis(millis as i64))
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
    let mut body = SubscriptionBody::open("", body, problems)?;
    let endpoint = body.endpoint(problems).and_then(|text| endpoint::check(&text, hosts, problems));
    let expires_at = body.expiration_time(problems);
    let keys = body.keys(problems).map(|mut keys| {
        let is_point = |key: &[u8]| key.len() == POINT && key[0] == UNCOMPRESSED && is_on_curve(key);
        let p256dh = keys.p256dh(problems);
        let p256dh = p256dh.and_then(|text| {
            read_key(&text, is_point, &keys.fields.path("p256dh"), "an uncompressed point of P-256", problems)
        });
        let auth = keys.auth(problems);
        let auth = auth.and_then(|text| {
            read_key(&text, |key| key.len() == AUTH, &keys.fields.path("auth"), "16 bytes", problems)
        });
        keys.fields.finish(strict, problems);
        p256dh.zip(auth)
    });
    body.fields.finish(strict, problems);
    let (p256dh, auth) = keys??;
    Some(Subscription { endpoint: endpoint?, p256dh, auth, expires_at })
}

fn read_key(
    text: &str,
    is_sound: impl Fn(&[u8]) -> bool,
    path: &str,
    wanted: &str,
    problems: &mut Vec<Problem>,
) -> Option<Vec<u8>> {
    let key = BASE64URL.decode(text).ok().filter(|key| is_sound(key));
    if key.is_none() {
        let message = format!("{path} must be {wanted}, in base64url");
        problems.push(Problem::new(path, "invalid_key", message));
    }
    key
}
