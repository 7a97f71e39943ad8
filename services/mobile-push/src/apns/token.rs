//! Provider tokens: what APNs believes instead of a certificate.
//!
//! <https://developer.apple.com/documentation/usernotifications/establishing-a-token-based-connection-to-apns>

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::Timestamp;
use jsonwebtoken::errors::Error;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::json;

/// A token is renewed at this age; APNs refuses it from an hour on.
const RENEWED_AT: Duration = Duration::from_secs(40 * 60);
/// APNs refuses a second token within this time.
const LEAST_AGE: Duration = Duration::from_secs(20 * 60);

/// Makes the tokens of one key, one at a time.
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
    /// From the `.p8` file of a key, in PEM.
    ///
    /// # Errors
    /// It is no key for ES256.
    pub fn new(team_id: String, key_id: String, pem: &str) -> Result<ProviderToken, Error> {
        let key = EncodingKey::from_ec_pem(pem.as_bytes())?;
        let made = ProviderToken { team_id, key_id, key, last: Mutex::default() };
        // Whether the curve is the right one, signing tells.
        made.sign(Timestamp::from_millis(0))?;
        Ok(made)
    }

    /// The token in use, renewed in time.
    ///
    /// # Errors
    /// It cannot be signed.
    pub fn current(&self, now: Timestamp) -> Result<Arc<str>, Error> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            // SignedToken in the future, it was made by a clock that has been set since.
            Some(made) if now.since(made.at) < RENEWED_AT && made.at.since(now) < LEAST_AGE => {
                Ok(made.token.clone())
            }
            _ => self.renew(&mut last, now),
        }
    }

    /// A token in place of one that APNs calls expired; None where it would not take another so soon.
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
