//! Access tokens: fetched by one attempt for all, ahead of their end (RFC 7523).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use domain::{Answer, Outcome, Timestamp};
use jsonwebtoken::{Algorithm, Header};
use reqwest::header::CONTENT_TYPE;
use serde::Deserialize;
use serde_json::json;
use url::form_urlencoded;
use worker::exchange::{Caller, Silence};

use crate::answers::ours;
use crate::fcm::answers::of_oauth;
use crate::fcm::settings::FcmSettings;

const SCOPE: &str = "https://www.googleapis.com/auth/firebase.messaging";
/// The longest that Google lets an assertion live.
const ASSERTED_FOR: u64 = 3_600;
/// This long before its end a token is replaced, while it still serves the others.
const AHEAD: Duration = Duration::from_secs(300);
/// This long before its end it is not used any more.
const LAST: Duration = Duration::from_secs(30);

/// The access token of a service account.
#[derive(Default)]
pub(super) struct AccessTokens {
    kept: Mutex<Option<AccessToken>>,
    /// Held by the attempt that fetches.
    fetching: tokio::sync::Mutex<Option<Failed>>,
}

#[derive(Clone)]
struct AccessToken {
    text: Arc<str>,
    ends: Timestamp,
}

/// A fetch that failed, for those who waited for it.
struct Failed {
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
    /// A token that is good for a while yet.
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
                // Whoever has the lock fetches already; a failure is the next one's to mend, while the token lasts.
                Ok(_fetching) => Ok(self.fetch(http, settings, now).await.unwrap_or(kept.text)),
                Err(_) => Ok(kept.text),
            },
        }
    }

    /// A token in place of one that is not believed any more.
    pub(super) async fn instead_of(
        &self,
        refused: &str,
        http: &Caller,
        settings: &FcmSettings,
        now: Timestamp,
    ) -> Result<Arc<str>, Answer> {
        self.replace(Some(refused), http, settings, now).await
    }

    /// The token that another attempt fetched meanwhile, or a new one.
    async fn replace(
        &self,
        refused: Option<&str>,
        http: &Caller,
        settings: &FcmSettings,
        now: Timestamp,
    ) -> Result<Arc<str>, Answer> {
        let began = Instant::now();
        let Ok(mut failed) = tokio::time::timeout(http.time_left(), self.fetching.lock()).await else {
            return Err(ours(Outcome::RETRY, "oauth timeout", "others were fetching a token for too long"));
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
            Err(answer) => Some(Failed { at: Instant::now(), answer: answer.clone() }),
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
        let granted: TokenResponse = serde_json::from_slice(&reply.body)
            .map_err(|_| ours(Outcome::RETRY, "oauth", "the OAuth server's answer holds no access token"))?;
        let text: Arc<str> = granted.access_token.into();
        let token = AccessToken { text: text.clone(), ends: now + Duration::from_secs(granted.expires_in) };
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(token);
        Ok(text)
    }
}

/// Without a token no message is sent: whatever became of the call, it can be made again.
fn without_token(silence: Silence) -> Answer {
    let Answer { outcome, code, message, .. } = silence.answer();
    let outcome = if outcome == Outcome::Unknown { Outcome::RETRY } else { outcome };
    Answer::new(outcome, format!("oauth {code}"), message)
}

/// Says who asks, signed with the service account's key.
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
        .map_err(|error| ours(Outcome::PauseProvider, "oauth", error.to_string()))
}
