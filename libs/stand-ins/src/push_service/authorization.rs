//! Authentication of a message's sender: the VAPID token in `Authorization` (RFC 8292).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode};
use serde::Deserialize;

use super::refused::Refusal;

/// Maximum lifetime of a token, in seconds.
const LONGEST: u64 = 24 * 3600;
const POINT: usize = 65;

/// A verified token.
#[derive(Debug)]
pub(super) struct Authorization {
    /// Public key of the sender, in base64url as in the header. The token was verified with it.
    pub(super) public_key: String,
    /// Contact address of the sender (claim `sub`).
    pub(super) subject: String,
}

#[derive(Deserialize)]
struct Claims {
    exp: u64,
    sub: String,
}

impl Authorization {
    /// Verifies the header `Authorization`. The token's audience must be `origin`. `now` is in seconds since 1970.
    pub(super) fn read(headers: &HeaderMap, origin: &str, now: u64) -> Result<Authorization, Refusal> {
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let (Some(header), None) = (values.next().and_then(|value| value.to_str().ok()), values.next())
        else {
            return Err(Refusal::new(401, "Authorization is missing or repeated"));
        };
        let parts = header.strip_prefix("vapid ").ok_or(Refusal::new(401, "the scheme is not vapid"))?;
        let part =
            |name: &str| parts.split(',').find_map(|part| part.trim().strip_prefix(name)?.strip_prefix('='));
        let (Some(token), Some(public_key)) = (part("t"), part("k")) else {
            return Err(Refusal::new(401, "the Authorization has no t or no k"));
        };
        let point = URL_SAFE_NO_PAD.decode(public_key).ok().filter(|point| point.len() == POINT);
        let point = point.ok_or(Refusal::new(401, "k is not a public key"))?;
        let mut validation = Validation::new(Algorithm::ES256);
        validation.leeway = 0;
        validation.set_audience(&[origin]);
        validation.set_required_spec_claims(&["exp", "aud", "sub"]);
        let claims = decode::<Claims>(token, &DecodingKey::from_ec_der(&point), &validation)
            .map_err(|error| Refusal { status: 403, why: format!("the token is not valid: {error}") })?
            .claims;
        if claims.exp > now + LONGEST {
            return Err(Refusal::new(403, "the token lives longer than a day"));
        }
        if !(claims.sub.starts_with("mailto:") || claims.sub.starts_with("https://")) {
            return Err(Refusal::new(403, "sub is neither mailto: nor https:"));
        }
        Ok(Authorization { public_key: public_key.to_owned(), subject: claims.sub })
    }
}
