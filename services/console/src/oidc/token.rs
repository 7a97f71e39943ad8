//! Verification of the tokens with which an OpenID provider identifies people (OpenID Connect Core 1.0, section 3.1.3.7).

use base64::prelude::*;
use jsonwebtoken::crypto::verify as verify_signature;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, decode_header};
use serde_json::{Map, Value};

use super::SKEW_SECONDS;

/// Maximum time since a token was issued.
const FRESH_SECONDS: i64 = 600;
const LONGEST: usize = 64 * 1024;

/// Reason why a token is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    #[error("it is no signed token")]
    Malformed,
    #[error("its algorithm is not RS256, PS256, ES256 or EdDSA")]
    Algorithm,
    #[error("its key is unknown")]
    UnknownKey,
    #[error("its signature is wrong")]
    Signature,
    #[error("another issuer made it")]
    Issuer,
    #[error("it is for another client")]
    Audience,
    #[error("it has expired, or is too old; compare the clocks")]
    Expired,
    #[error("it is from the future; compare the clocks")]
    Future,
    #[error("it belongs to another sign-in")]
    Nonce,
    #[error("its subject is missing")]
    Subject,
}

/// Values that a token must have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected<'a> {
    pub(super) issuer: &'a str,
    pub(super) client_id: &'a str,
    pub(super) nonce: &'a str,
    /// Seconds since 1970.
    pub(super) now: i64,
}

/// Verifies a token. Returns its claims.
pub(super) fn verify(
    token: &str,
    keys: &[Jwk],
    expected: &Expected<'_>,
) -> Result<Map<String, Value>, Refused> {
    if token.len() > LONGEST {
        return Err(Refused::Malformed);
    }
    let (message, signature) = token.rsplit_once('.').ok_or(Refused::Malformed)?;
    let (_, payload) = message.split_once('.').ok_or(Refused::Malformed)?;
    // A header with an unknown algorithm, such as `none`, is not read.
    let header = decode_header(token).map_err(|_| Refused::Algorithm)?;
    let algorithm = header.alg;
    if !is_allowed(algorithm) {
        return Err(Refused::Algorithm);
    }
    let key = key(keys, header.kid.as_deref(), algorithm).ok_or(Refused::UnknownKey)?;
    let key = DecodingKey::from_jwk(key).map_err(|_| Refused::UnknownKey)?;
    match verify_signature(signature, message.as_bytes(), &key, algorithm) {
        Ok(true) => {}
        Ok(false) | Err(_) => return Err(Refused::Signature),
    }
    let payload = BASE64_URL_SAFE_NO_PAD.decode(payload).map_err(|_| Refused::Malformed)?;
    let claims: Map<String, Value> = serde_json::from_slice(&payload).map_err(|_| Refused::Malformed)?;
    check(&claims, expected)?;
    Ok(claims)
}

fn is_allowed(algorithm: Algorithm) -> bool {
    matches!(algorithm, Algorithm::RS256 | Algorithm::PS256 | Algorithm::ES256 | Algorithm::EdDSA)
}

/// Finds the key of a token. A token without the name of a key needs a provider with one key of its kind.
fn key<'a>(keys: &'a [Jwk], kid: Option<&str>, algorithm: Algorithm) -> Option<&'a Jwk> {
    let mut fitting = keys.iter().filter(|key| {
        let common = &key.common;
        let is_named = kid.is_none_or(|kid| common.key_id.as_deref() == Some(kid));
        let signs = common.public_key_use.as_ref().is_none_or(|purpose| *purpose == PublicKeyUse::Signature);
        let name = format!("{algorithm:?}");
        let is_for = common.key_algorithm.is_none_or(|known| format!("{known:?}") == name);
        is_named && signs && is_for && is_of_kind(&key.algorithm, algorithm)
    });
    let first = fitting.next()?;
    (kid.is_some() || fitting.next().is_none()).then_some(first)
}

fn is_of_kind(parameters: &AlgorithmParameters, algorithm: Algorithm) -> bool {
    match parameters {
        AlgorithmParameters::RSA(_) => matches!(algorithm, Algorithm::RS256 | Algorithm::PS256),
        AlgorithmParameters::EllipticCurve(key) => {
            algorithm == Algorithm::ES256 && key.curve == EllipticCurve::P256
        }
        AlgorithmParameters::OctetKeyPair(key) => {
            algorithm == Algorithm::EdDSA && key.curve == EllipticCurve::Ed25519
        }
        _ => false,
    }
}

fn check(claims: &Map<String, Value>, expected: &Expected<'_>) -> Result<(), Refused> {
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    let time = |name: &str| claims.get(name).and_then(seconds);
    if text("iss") != Some(expected.issuer) {
        return Err(Refused::Issuer);
    }
    check_audience(claims, expected.client_id)?;
    let issued = time("iat").ok_or(Refused::Expired)?;
    let expires = time("exp").ok_or(Refused::Expired)?;
    let latest = expected.now.saturating_add(SKEW_SECONDS);
    if issued > latest || ["nbf", "auth_time"].into_iter().filter_map(time).any(|at| at > latest) {
        return Err(Refused::Future);
    }
    let oldest = expected.now.saturating_sub(SKEW_SECONDS);
    if expires <= oldest || issued < oldest.saturating_sub(FRESH_SECONDS) {
        return Err(Refused::Expired);
    }
    if text("nonce") != Some(expected.nonce) {
        return Err(Refused::Nonce);
    }
    if text("sub").is_none_or(str::is_empty) {
        return Err(Refused::Subject);
    }
    Ok(())
}

/// A token for several clients names the one that asked for it.
fn check_audience(claims: &Map<String, Value>, client_id: &str) -> Result<(), Refused> {
    let (is_for, is_alone) = match claims.get("aud") {
        Some(Value::String(one)) => (one == client_id, true),
        Some(Value::Array(all)) => (all.iter().any(|one| one == client_id), all.len() == 1),
        _ => (false, false),
    };
    let party = claims.get("azp");
    let is_party = party.map_or(is_alone, |party| party == client_id);
    if is_for && is_party { Ok(()) } else { Err(Refused::Audience) }
}

/// Reads a time in seconds, which may have a fraction.
#[allow(clippy::cast_possible_truncation, reason = "seconds of a date fit")]
pub(super) fn seconds(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_f64().map(|seconds| seconds as i64))
}

#[cfg(test)]
mod tests;
