//! Signed tokens that identify the app to push services (VAPID, RFC 8292).

use std::sync::Arc;
use std::time::Duration;

use credentials::MasterKey;
use credentials::vapid::{self, VapidError};
use domain::{AppId, Timestamp};
use jsonwebtoken::errors::Error as JwtError;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use moka::future::Cache;
use reqwest::header::{HeaderValue, InvalidHeaderValue};
use secrecy::ExposeSecret as _;
use serde::Serialize;
use service_kit::Context;
use store::Store;

/// Push services refuse tokens that live longer than 24 hours (RFC 8292, section 2).
const LIFETIME: Duration = Duration::from_secs(12 * 3600);
/// Shorter than the lifetime, so that no token expires on its way to the push service.
const USED_FOR: Duration = Duration::from_secs(6 * 3600);
const MAX_KEPT: u64 = 10_000;

/// Caches keys and tokens.
pub(crate) struct Authorizations {
    store: Store,
    master_key: MasterKey,
    signers: Cache<AppId, Arc<Signer>>,
    tokens: Cache<Audience, Token>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum AuthorizationError {
    /// An old release created the app without a key pair.
    #[error("the app has no key pair; `tidings migrate` creates one")]
    NoKey,
    #[error(transparent)]
    Key(#[from] VapidError),
    #[error("the app's key pair cannot sign: {0}")]
    Unsigned(#[from] JwtError),
    #[error(transparent)]
    NoHeader(#[from] InvalidHeaderValue),
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Audience {
    app: AppId,
    subject: String,
    origin: String,
}

#[derive(Clone)]
struct Token {
    header: HeaderValue,
    use_until: Timestamp,
}

pub(crate) struct Signer {
    public_key: String,
    key: EncodingKey,
}

#[derive(Serialize)]
struct Claims<'a> {
    aud: &'a str,
    exp: i64,
    sub: &'a str,
}

impl Authorizations {
    pub(crate) fn new(context: &Context) -> Authorizations {
        Authorizations {
            store: context.store.clone(),
            master_key: context.master_key.clone(),
            signers: Cache::new(MAX_KEPT),
            tokens: Cache::builder().max_capacity(MAX_KEPT).time_to_live(USED_FOR).build(),
        }
    }

    /// The origin contains the port unless it is the default port.
    pub(crate) async fn header(
        &self,
        app: AppId,
        subject: &str,
        origin: &str,
        now: Timestamp,
    ) -> Result<HeaderValue, Arc<AuthorizationError>> {
        let audience = Audience { app, subject: subject.to_owned(), origin: origin.to_owned() };
        if let Some(token) = self.tokens.get(&audience).await
            && now < token.use_until
        {
            return Ok(token.header);
        }
        let signer = self.signers.try_get_with(app, Signer::load(&self.store, &self.master_key, app)).await?;
        let header = signer.authorize(subject, origin, now).map_err(Arc::new)?;
        let token = Token { header: header.clone(), use_until: now + USED_FOR };
        self.tokens.insert(audience, token).await;
        Ok(header)
    }
}

impl Signer {
    pub(crate) async fn load(
        store: &Store,
        master_key: &MasterKey,
        app: AppId,
    ) -> Result<Arc<Signer>, AuthorizationError> {
        let pair = vapid::load(store, master_key, app).await?.ok_or(AuthorizationError::NoKey)?;
        let key = EncodingKey::from_ec_der(pair.pkcs8.expose_secret());
        Ok(Arc::new(Signer { public_key: pair.public_key, key }))
    }

    pub(crate) fn token(&self, subject: &str, origin: &str, now: Timestamp) -> Result<String, JwtError> {
        let exp = (now + LIFETIME).millis() / 1000;
        encode(&Header::new(Algorithm::ES256), &Claims { aud: origin, exp, sub: subject }, &self.key)
    }

    /// Uncompressed point of P-256, in base64url.
    pub(crate) fn public_key(&self) -> &str {
        &self.public_key
    }

    fn authorize(
        &self,
        subject: &str,
        origin: &str,
        now: Timestamp,
    ) -> Result<HeaderValue, AuthorizationError> {
        let token = self.token(subject, origin, now)?;
        let mut header = HeaderValue::from_str(&format!("vapid t={token}, k={}", self.public_key))?;
        header.set_sensitive(true);
        Ok(header)
    }
}
