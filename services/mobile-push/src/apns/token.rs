//! Provider tokens: signed JWTs that authenticate requests to APNs instead of a certificate.
//!
//! <https://developer.apple.com/documentation/usernotifications/establishing-a-token-based-connection-to-apns>

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::Timestamp;
use jsonwebtoken::errors::Error;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::json;

/// Age at which a token is renewed; APNs rejects a token after an hour.
const RENEWED_AT: Duration = Duration::from_secs(40 * 60);
/// Minimum age of a token before it may be replaced; APNs rejects updates that are more frequent.
const LEAST_AGE: Duration = Duration::from_secs(20 * 60);

/// Signer of the provider tokens of one key. It caches the current token.
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
    /// Reads a key from the PEM text of its `.p8` file.
    ///
    /// # Errors
    /// The text is not a private key for ES256.
    pub fn new(team_id: String, key_id: String, pem: &str) -> Result<ProviderToken, Error> {
        let key = EncodingKey::from_ec_pem(pem.as_bytes())?;
        let made = ProviderToken { team_id, key_id, key, last: Mutex::default() };
        // Signing fails if the key has another curve than P-256.
        made.sign(Timestamp::from_millis(0))?;
        Ok(made)
    }

    /// Returns the current token. A token older than 40 minutes is renewed first.
    ///
    /// # Errors
    /// It cannot be signed.
    pub fn current(&self, now: Timestamp) -> Result<Arc<str>, Error> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            // A token much newer than `now` was signed before the clock was set back; replace it.
            Some(made) if now.since(made.at) < RENEWED_AT && made.at.since(now) < LEAST_AGE => {
                Ok(made.token.clone())
            }
            _ => self.renew(&mut last, now),
        }
    }

    /// Returns a token that replaces one that APNs reported as expired. None if the current token is younger than 20
    /// minutes, because APNs would reject another one.
    ///
    /// # Errors
    /// It cannot be signed.
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
