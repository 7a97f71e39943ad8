//! Provider tokens: signed JWTs that authenticate requests to APNs in place of a client certificate.
//!
//! <https://developer.apple.com/documentation/usernotifications/establishing-a-token-based-connection-to-apns>

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::Timestamp;
use jsonwebtoken::errors::Error;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::json;

/// APNs rejects tokens that are older than an hour.
const RENEWED_AT: Duration = Duration::from_secs(40 * 60);
/// APNs rejects provider tokens that change more often.
const LEAST_AGE: Duration = Duration::from_secs(20 * 60);

/// Signs provider tokens with one key, and caches the current token.
pub struct ProviderToken {
    team_id: String,
    key_id: String,
    key: EncodingKey,
    last: Mutex<Option<SignedToken>>,
}

struct SignedToken {
    at: Timestamp,
    token: Arc<str>,
}

impl ProviderToken {
    /// Reads an ES256 private key from the PEM text of its `.p8` file.
    pub fn new(team_id: String, key_id: String, pem: &str) -> Result<ProviderToken, Error> {
        let key = EncodingKey::from_ec_pem(pem.as_bytes())?;
        let made = ProviderToken { team_id, key_id, key, last: Mutex::default() };
        // Sign once to check the key: signing fails if its curve is not P-256.
        made.sign(Timestamp::from_millis(0))?;
        Ok(made)
    }

    pub fn current(&self, now: Timestamp) -> Result<Arc<str>, Error> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            // A token that is much newer than `now` was signed before the clock was set back. Replace it.
            Some(made) if now.since(made.at) < RENEWED_AT && made.at.since(now) < LEAST_AGE => {
                Ok(made.token.clone())
            }
            _ => self.renew(&mut last, now),
        }
    }

    /// Returns None if `refused`, which APNs reported as expired, is younger than 20 minutes.
    pub fn instead_of(&self, refused: &str, now: Timestamp) -> Result<Option<Arc<str>>, Error> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some(made) if *made.token != *refused => Ok(Some(made.token.clone())),
            Some(made) if now.since(made.at) < LEAST_AGE => Ok(None),
            _ => self.renew(&mut last, now).map(Some),
        }
    }

    fn renew(&self, last: &mut Option<SignedToken>, now: Timestamp) -> Result<Arc<str>, Error> {
        let token: Arc<str> = self.sign(now)?.into();
        *last = Some(SignedToken { at: now, token: token.clone() });
        Ok(token)
    }

    fn sign(&self, now: Timestamp) -> Result<String, Error> {
        let header = Header { kid: Some(self.key_id.clone()), typ: None, ..Header::new(Algorithm::ES256) };
        let claims = json!({"iss": self.team_id, "iat": now.millis().div_euclid(1_000)});
        jsonwebtoken::encode(&header, &claims, &self.key)
    }
}
