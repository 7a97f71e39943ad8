//! OAuth server, which grants access tokens for assertions (RFC 7523).

use std::collections::HashMap;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE};
use hyper::{Request, Response};
use jsonwebtoken::{Algorithm, Validation};
use serde::Deserialize;
use serde_json::json;
use url::form_urlencoded;

use super::{ACCOUNT, FcmState, KEY_ID};
use crate::http;

const GRANT: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const SCOPES: [&str; 2] =
    ["https://www.googleapis.com/auth/firebase.messaging", "https://www.googleapis.com/auth/cloud-platform"];
/// Maximum lifetime of an assertion, in seconds.
const LONGEST: i64 = 3_600;
/// Tolerated difference between the clocks, in seconds.
const SKEW: i64 = 60;

#[derive(Deserialize)]
struct Claims {
    iss: String,
    scope: String,
    aud: String,
    iat: i64,
    exp: i64,
}

impl FcmState {
    pub(super) fn grant(&self, request: &Request<Bytes>) -> Response<Bytes> {
        let is_form = request
            .headers()
            .get(CONTENT_TYPE)
            .is_some_and(|value| value.as_bytes().starts_with(b"application/x-www-form-urlencoded"));
        let form: HashMap<_, _> = form_urlencoded::parse(request.body()).collect();
        if !is_form || form.get("grant_type").is_none_or(|grant| grant != GRANT) {
            return refused("unsupported_grant_type", "Invalid grant_type");
        }
        let assertion = form.get("assertion").map_or("", AsRef::as_ref);
        if let Err(description) = self.check_assertion(assertion) {
            return refused("invalid_grant", description);
        }
        let number = self.granted.fetch_add(1, Ordering::Relaxed) + 1;
        let lifetime = self.lifetime.load(Ordering::Relaxed);
        let token = format!("ya29.stand-in-{number}");
        let ends = self.now() + Duration::from_secs(lifetime);
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner).insert(token.clone(), ends);
        http::json(200, &json!({"access_token": token, "expires_in": lifetime, "token_type": "Bearer"}))
    }

    fn check_assertion(&self, assertion: &str) -> Result<(), &'static str> {
        let token_url = self.token_url.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut validation = Validation::new(Algorithm::RS256);
        validation.set_required_spec_claims::<&str>(&[]);
        validation.validate_exp = false;
        validation.validate_aud = false;
        let read = jsonwebtoken::decode::<Claims>(assertion, &self.account_key, &validation);
        let read = read.map_err(|_| "Invalid JWT Signature.")?;
        let Claims { iss, scope, aud, iat, exp } = read.claims;
        let now = self.now().millis().div_euclid(1_000);
        if read.header.kid.as_deref() != Some(KEY_ID) || iss != ACCOUNT {
            return Err("Invalid JWT: no such key or account.");
        }
        if aud != token_url {
            return Err("Invalid JWT: Failed audience check.");
        }
        if !scope.split(' ').any(|one| SCOPES.contains(&one)) {
            return Err("Invalid OAuth scope.");
        }
        if iat > now + SKEW || exp <= now || exp - iat > LONGEST {
            return Err("Invalid JWT: Token must be a short-lived token (60 minutes).");
        }
        Ok(())
    }

    pub(super) fn accepts_token(&self, request: &Request<Bytes>) -> bool {
        let header = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = header.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
        let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.get(token).is_some_and(|ends| *ends > self.now())
    }
}

fn refused(error: &str, description: &str) -> Response<Bytes> {
    http::json(400, &json!({"error": error, "error_description": description}))
}
