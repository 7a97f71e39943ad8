//! OAuth access tokens for FCM (RFC 7523). Before a token expires, one attempt fetches a new one, which all attempts
//! use.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use domain::{Answer, Outcome, Timestamp};
use jsonwebtoken::{Algorithm, Header};
use reqwest::header::CONTENT_TYPE;
use serde::Deserialize;
use serde_json::json;
use url::form_urlencoded;
use worker::exchange::{Caller, NoReply};

use crate::fcm::answers::of_oauth;
use crate::fcm::settings::FcmSettings;

const SCOPE: &str = "https://www.googleapis.com/auth/firebase.messaging";
/// Lifetime in seconds; the maximum that Google accepts.
const ASSERTED_FOR: u64 = 3_600;
/// Remaining lifetime at which one attempt fetches a new token. The other attempts continue to use the current one.
const AHEAD: Duration = Duration::from_secs(300);
/// Remaining lifetime at which a token is no longer used.
const LAST: Duration = Duration::from_secs(30);

/// Caches the current access token of a service account.
#[derive(Default)]
pub(super) struct AccessTokens {
    kept: Mutex<Option<AccessToken>>,
    /// Lock that an attempt holds while it fetches a token. The value is the last failure.
    fetching: tokio::sync::Mutex<Option<FailedFetch>>,
}

#[derive(Clone)]
struct AccessToken {
    text: Arc<str>,
    ends: Timestamp,
}

/// The attempts that waited for a failed fetch return the same answer.
struct FailedFetch {
    at: Instant,
    answer: Answer,
}

#[derive(Deserialize)]
struct TokenResponse {
    access_token: String,
    #[serde(default)]
    expires_in: u64,
}

impl AccessTokens {
    /// Returns a token that remains valid for more than [`LAST`].
    pub(super) async fn current(
        &self,
        http: &Caller,
        settings: &FcmSettings,
        now: Timestamp,
    ) -> Result<Arc<str>, Answer> {
        match self.usable(now) {
            None => self.replace(None, http, settings, now).await,
            Some(kept) if now + AHEAD < kept.ends => Ok(kept.text),
            Some(kept) => match self.fetching.try_lock() {
                // This attempt fetches a new token. If that fails, it uses the current one, and the next attempt
                // fetches again.
                Ok(_fetching) => Ok(self.fetch(http, settings, now).await.unwrap_or(kept.text)),
                Err(_) => Ok(kept.text),
            },
        }
    }

    pub(super) async fn instead_of(
        &self,
        refused: &str,
        http: &Caller,
        settings: &FcmSettings,
        now: Timestamp,
    ) -> Result<Arc<str>, Answer> {
        self.replace(Some(refused), http, settings, now).await
    }

    /// Returns the result of another attempt's fetch if one is in progress; otherwise fetches a token.
    async fn replace(
        &self,
        refused: Option<&str>,
        http: &Caller,
        settings: &FcmSettings,
        now: Timestamp,
    ) -> Result<Arc<str>, Answer> {
        let began = Instant::now();
        let Ok(mut failed) = tokio::time::timeout(http.time_left(), self.fetching.lock()).await else {
            return Err(Answer::new(
                Outcome::RETRY,
                "oauth timeout",
                "another attempt took too long to fetch a token",
            ));
        };
        if let Some(kept) = self.usable(now).filter(|kept| refused != Some(&*kept.text)) {
            return Ok(kept.text);
        }
        if let Some(failed) = &*failed
            && failed.at >= began
        {
            return Err(failed.answer.clone());
        }
        let fetched = self.fetch(http, settings, now).await;
        *failed = match &fetched {
            Ok(_) => None,
            Err(answer) => Some(FailedFetch { at: Instant::now(), answer: answer.clone() }),
        };
        fetched
    }

    fn usable(&self, now: Timestamp) -> Option<AccessToken> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.clone().filter(|kept| now + LAST < kept.ends)
    }

    async fn fetch(&self, http: &Caller, settings: &FcmSettings, now: Timestamp) -> Result<Arc<str>, Answer> {
        let assertion = assertion(settings, now)?;
        let form = form_urlencoded::Serializer::new(String::new())
            .append_pair("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer")
            .append_pair("assertion", &assertion)
            .finish();
        let request = http
            .client()
            .post(settings.token_url.clone())
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(form);
        let reply = http.call(request, now).await.map_err(without_token)?;
        if reply.status != 200 {
            return Err(of_oauth(&reply));
        }
        let granted: TokenResponse = serde_json::from_slice(&reply.body).map_err(|_| {
            Answer::new(Outcome::RETRY, "oauth", "the OAuth server's answer contains no access token")
        })?;
        let text: Arc<str> = granted.access_token.into();
        let token = AccessToken { text: text.clone(), ends: now + Duration::from_secs(granted.expires_in) };
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(token);
        Ok(text)
    }
}

/// The call sends no message, so an unknown outcome becomes a retry.
fn without_token(silence: NoReply) -> Answer {
    let Answer { outcome, code, message, .. } = silence.answer();
    let outcome = if outcome == Outcome::Unknown { Outcome::RETRY } else { outcome };
    Answer::new(outcome, format!("oauth {code}"), message)
}

fn assertion(settings: &FcmSettings, now: Timestamp) -> Result<String, Answer> {
    let account = &settings.account;
    let header = Header { kid: account.private_key_id.clone(), ..Header::new(Algorithm::RS256) };
    let issued = now.millis().div_euclid(1_000);
    let claims = json!({
        "iss": account.client_email,
        "scope": SCOPE,
        "aud": settings.token_url.as_str(),
        "iat": issued,
        "exp": issued.saturating_add_unsigned(ASSERTED_FOR),
    });
    jsonwebtoken::encode(&header, &claims, &settings.key)
        .map_err(|error| Answer::new(Outcome::PauseProvider, "oauth", error.to_string()))
}
