//! The checks that Apple makes on each push, in the same order.

use std::sync::PoisonError;

use domain::Timestamp;
use hyper::body::Bytes;
use hyper::header::AUTHORIZATION;
use hyper::{Method, Request};
use jsonwebtoken::{Algorithm, Validation};
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use crate::http::ConnectionNumber;

use super::{ApnsState, KEY_ID, REASONS, Refusal, TEAM_ID};

/// Age in seconds at which a provider token is refused.
const OLDEST: i64 = 3_600;
/// Minimum time in seconds between the issue times of two provider tokens on one connection.
const FEWEST: i64 = 20 * 60;
/// Tolerated difference between the clocks, in seconds.
const SKEW: i64 = 60;
/// Maximum size of a payload in bytes, except for the push type `voip`.
const LARGEST: usize = 4_096;
/// Maximum size of a payload in bytes for the push type `voip`.
const LARGEST_CALL: usize = 5_120;

const PUSH_TYPES: [&str; 11] = [
    "alert",
    "background",
    "controls",
    "location",
    "voip",
    "complication",
    "fileprovider",
    "mdm",
    "liveactivity",
    "pushtotalk",
    "widgets",
];
const ONCE: [&str; 6] =
    ["apns-id", "apns-topic", "apns-push-type", "apns-priority", "apns-expiration", "apns-collapse-id"];

#[derive(Deserialize)]
struct Claims {
    iss: String,
    iat: i64,
}

impl ApnsState {
    pub(super) fn check(&self, request: &Request<Bytes>, token: &str, now: Timestamp) -> Result<(), Refusal> {
        if request.method() != Method::POST {
            return Err(Refusal(405, "MethodNotAllowed"));
        }
        if token.is_empty() || token.contains('/') {
            return Err(Refusal(404, "BadPath"));
        }
        if !self.settings.by_certificate {
            self.check_provider_token(request, now)?;
        }
        if ONCE.iter().any(|name| request.headers().get_all(*name).iter().count() > 1) {
            return Err(Refusal(400, "DuplicateHeaders"));
        }
        let push_type = self.check_headers(request)?;
        check_payload(request.body(), push_type)?;
        check_device_token(token)
    }

    fn check_provider_token(&self, request: &Request<Bytes>, now: Timestamp) -> Result<(), Refusal> {
        let bearer = text(request, AUTHORIZATION.as_str()).and_then(|value| value.strip_prefix("bearer "));
        let bearer = bearer.ok_or(Refusal(403, "MissingProviderToken"))?;
        let invalid = Refusal(403, "InvalidProviderToken");
        let mut validation = Validation::new(Algorithm::ES256);
        validation.set_required_spec_claims::<&str>(&[]);
        validation.validate_exp = false;
        let read =
            jsonwebtoken::decode::<Claims>(bearer, &self.team_key, &validation).map_err(|_| invalid)?;
        let Claims { iss, iat } = read.claims;
        if iss != TEAM_ID || read.header.kid.as_deref() != Some(KEY_ID) {
            return Err(invalid);
        }
        let age = now.millis().div_euclid(1_000) - iat;
        match age {
            OLDEST.. => return Err(Refusal(403, "ExpiredProviderToken")),
            ..0 if age < -SKEW => return Err(invalid),
            _ => {}
        }
        let connection = request.extensions().get::<ConnectionNumber>().copied();
        let mut last = self.last_tokens.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, issued)) = last.get(&connection)
            && known != bearer
            && iat - issued < FEWEST
        {
            return Err(Refusal(429, "TooManyProviderTokenUpdates"));
        }
        last.insert(connection, (bearer.to_owned(), iat));
        Ok(())
    }

    fn check_headers<'a>(&self, request: &'a Request<Bytes>) -> Result<&'a str, Refusal> {
        let id = text(request, "apns-id").filter(|id| {
            // Only the canonical form of a UUID is valid.
            id.len() == 36 && Uuid::parse_str(id).is_ok_and(|parsed| parsed.to_string() == *id)
        });
        id.ok_or(Refusal(400, "BadMessageId"))?;
        let topic = text(request, "apns-topic").ok_or(Refusal(400, "MissingTopic"))?;
        let own = &self.settings.topic;
        if topic != own && !topic.starts_with(&format!("{own}.")) {
            return Err(Refusal(400, "TopicDisallowed"));
        }
        let push_type = text(request, "apns-push-type").filter(|kind| PUSH_TYPES.contains(kind));
        let push_type = push_type.ok_or(Refusal(400, "InvalidPushType"))?;
        match text(request, "apns-priority") {
            Some("10") if push_type == "background" => return Err(Refusal(400, "BadPriority")),
            None | Some("1" | "5" | "10") => {}
            Some(_) => return Err(Refusal(400, "BadPriority")),
        }
        if text(request, "apns-expiration").is_some_and(|end| end.parse::<u64>().is_err()) {
            return Err(Refusal(400, "BadExpirationDate"));
        }
        if text(request, "apns-collapse-id").is_some_and(|id| id.is_empty() || id.len() > 64) {
            return Err(Refusal(400, "BadCollapseId"));
        }
        Ok(push_type)
    }
}

fn text<'a>(request: &'a Request<Bytes>, name: &str) -> Option<&'a str> {
    request.headers().get(name).map(|value| value.to_str().unwrap_or("?"))
}

fn check_payload(payload: &[u8], push_type: &str) -> Result<(), Refusal> {
    if payload.len() > if push_type == "voip" { LARGEST_CALL } else { LARGEST } {
        return Err(Refusal(413, "PayloadTooLarge"));
    }
    let read: Value = serde_json::from_slice(payload).unwrap_or_default();
    let aps = read.get("aps").and_then(Value::as_object).ok_or(Refusal(400, "PayloadEmpty"))?;
    // An alert must contain at least one of text, badge and sound.
    let says = ["alert", "badge", "sound"].iter().any(|name| aps.contains_key(*name));
    match push_type {
        "alert" if !says => Err(Refusal(400, "PayloadEmpty")),
        _ => Ok(()),
    }
}

fn check_device_token(token: &str) -> Result<(), Refusal> {
    if let Some(&(reason, status)) = REASONS.iter().find(|(reason, _)| *reason == token) {
        return Err(Refusal(status, reason));
    }
    let is_hex =
        token.len() >= 64 && token.len().is_multiple_of(2) && token.bytes().all(|b| b.is_ascii_hexdigit());
    if is_hex && token.bytes().any(|byte| byte != b'0') {
        Ok(())
    } else {
        Err(Refusal(400, "BadDeviceToken"))
    }
}
