//! Access tokens for XOAUTH2, from a refresh token (RFC 6749 section 6).

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use reqwest::Client;
use reqwest::header::CONTENT_TYPE;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use tokio::time::Instant;
use url::{Url, form_urlencoded};
use worker::{Outbound, outbound};

use super::failure::Failure;
use super::settings::Token;

const CALL_LIMIT: Duration = Duration::from_secs(8);
const FORM: &str = "application/x-www-form-urlencoded";
/// Maximum number of octets to read from a response. The rest is ignored.
const ANSWER: usize = 64 << 10;
const DEFAULT_LIFETIME: Duration = Duration::from_secs(300);
/// Maximum lifetime of a token, even if the response states a longer one.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// Margin that allows for clock differences and for the time a login takes.
const MARGIN: Duration = Duration::from_secs(30);

/// Source of access tokens for one login. Before a token expires, one task requests a new one. The other tasks continue
/// to use the old token while it is valid.
pub(crate) struct Tokens {
    client: Client,
    outbound: Outbound,
    url: Url,
    client_id: String,
    client_secret: Option<SecretString>,
    kept: Mutex<TokenState>,
    refreshing: tokio::sync::Mutex<()>,
}

struct TokenState {
    token: Option<AccessToken>,
    /// Newest refresh token: some servers issue a new one with each access token.
    refresh_token: SecretString,
}

#[derive(Clone)]
struct AccessToken {
    value: SecretString,
    refresh_at: Instant,
    ends_at: Instant,
}

#[derive(Deserialize)]
struct TokenResponse {
    access_token: String,
    expires_in: Option<u64>,
    refresh_token: Option<String>,
}

#[derive(Deserialize)]
struct TokenError {
    error: String,
}

impl Tokens {
    /// Creates a source of tokens. Returns None if the settings contain an access token.
    pub(crate) fn of(token: &Token, outbound: Outbound, client: &Client) -> Option<Tokens> {
        let Token::Refreshed { url, client_id, client_secret, refresh_token } = token else { return None };
        let kept = TokenState { token: None, refresh_token: refresh_token.clone() };
        Some(Tokens {
            client: client.clone(),
            outbound,
            url: url.clone(),
            client_id: client_id.clone(),
            client_secret: client_secret.clone(),
            kept: Mutex::new(kept),
            refreshing: tokio::sync::Mutex::default(),
        })
    }

    /// Returns a token that is not equal to `refused`. The boolean is true if the token was issued during this call.
    pub(crate) async fn get(&self, refused: Option<&SecretString>) -> Result<(SecretString, bool), Failure> {
        let cached = self.cached(refused);
        if let Some(cached) = &cached
            && Instant::now() < cached.refresh_at
        {
            return Ok((cached.value.clone(), false));
        }
        if let Some(cached) = cached {
            // The token is due for renewal but still valid. Renew it, unless another task is renewing it already.
            let Ok(_guard) = self.refreshing.try_lock() else { return Ok((cached.value, false)) };
            return match self.refresh().await {
                Ok(value) => Ok((value, true)),
                Err(failure) => {
                    tracing::warn!(?failure, "cannot renew the access token; using the old one");
                    Ok((cached.value, false))
                }
            };
        }
        let _guard = self.refreshing.lock().await;
        match self.cached(refused) {
            // Another task renewed the token while this task waited for the lock.
            Some(cached) => Ok((cached.value, true)),
            None => Ok((self.refresh().await?, true)),
        }
    }

    fn cached(&self, refused: Option<&SecretString>) -> Option<AccessToken> {
        let is_refused = |token: &AccessToken| {
            refused.is_some_and(|old| old.expose_secret() == token.value.expose_secret())
        };
        self.lock().token.clone().filter(|token| Instant::now() < token.ends_at && !is_refused(token))
    }

    async fn refresh(&self) -> Result<SecretString, Failure> {
        if self.outbound.check(&self.url).is_err()
            || !(self.url.scheme() == "https" || self.outbound.allows_private())
        {
            return Err(no_token(true, "tokenUrl must be https and resolve to a public address"));
        }
        let asked_at = Instant::now();
        let call = self.client.post(self.url.clone()).header(CONTENT_TYPE, FORM).body(self.form());
        let response =
            call.timeout(CALL_LIMIT).send().await.map_err(|error| no_token(false, &cause(error)))?;
        let status = response.status();
        let body = outbound::read_at_most(response, ANSWER).await;
        let body = body.map_err(|error| no_token(false, &cause(error)))?;
        if !status.is_success() {
            let refused = serde_json::from_slice::<TokenError>(&body);
            let error = refused.map_or_else(|_| status.to_string(), |refused| refused.error);
            return Err(no_token(status.is_client_error() && status.as_u16() != 429, &error));
        }
        let granted: TokenResponse =
            serde_json::from_slice(&body).map_err(|_| no_token(false, "the answer has no token"))?;
        Ok(self.keep(granted, asked_at))
    }

    fn form(&self) -> String {
        let refresh_token = self.lock().refresh_token.clone();
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("grant_type", "refresh_token")
            .append_pair("refresh_token", refresh_token.expose_secret())
            .append_pair("client_id", &self.client_id);
        if let Some(secret) = &self.client_secret {
            form.append_pair("client_secret", secret.expose_secret());
        }
        form.finish()
    }

    fn keep(&self, granted: TokenResponse, asked_at: Instant) -> SecretString {
        let lifetime = granted.expires_in.map_or(DEFAULT_LIFETIME, Duration::from_secs).min(LONGEST);
        // A task starts to renew the token this long before it can no longer be used: a tenth of its lifetime, at most
        // five minutes.
        let ahead = (lifetime / 10).min(Duration::from_secs(300));
        let value = SecretString::from(granted.access_token);
        let mut kept = self.lock();
        kept.token = Some(AccessToken {
            value: value.clone(),
            refresh_at: asked_at + lifetime.saturating_sub(MARGIN + ahead),
            ends_at: asked_at + lifetime.saturating_sub(MARGIN),
        });
        if let Some(next) = granted.refresh_token.filter(|next| !next.is_empty()) {
            kept.refresh_token = next.into();
        }
        value
    }

    fn lock(&self) -> MutexGuard<'_, TokenState> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn no_token(is_refused: bool, cause: &str) -> Failure {
    Failure::NoToken { is_refused, cause: cause.to_owned() }
}

/// Returns the text of an error, without the URL.
fn cause(error: reqwest::Error) -> String {
    error.without_url().to_string()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use hyper::Request;
    use hyper::body::Bytes;
    use serde_json::json;
    use stand_ins::http::{self, Handler, HttpServer, HttpSettings, Reply};

    use super::*;

    /// Token endpoint that counts its calls. If the flag is true, it issues a token for every call; otherwise every
    /// call fails.
    struct Endpoint(AtomicU64, bool);

    impl Handler for Endpoint {
        fn handle(&self, _: &Request<Bytes>) -> Reply {
            self.0.fetch_add(1, Ordering::Relaxed);
            Reply::Answer(if self.1 {
                http::json(200, &json!({"access_token": "new", "expires_in": 3600}))
            } else {
                http::json(500, &json!({}))
            })
        }
    }

    /// Starts an endpoint, and creates a source whose cached token is due for renewal but valid for another hour.
    async fn due(issues: bool) -> (Tokens, HttpServer, Arc<Endpoint>) {
        let endpoint = Arc::new(Endpoint(AtomicU64::new(0), issues));
        let server = HttpServer::start(HttpSettings::default(), endpoint.clone()).await.unwrap();
        let token = Token::Refreshed {
            url: Url::parse(&server.url()).unwrap(),
            client_id: "shop".to_owned(),
            client_secret: None,
            refresh_token: "grant".into(),
        };
        let outbound = Outbound::new(true);
        let tokens = Tokens::of(&token, outbound, &outbound.client().build().unwrap()).unwrap();
        let now = Instant::now();
        let hour = Duration::from_secs(3600);
        tokens.lock().token = Some(AccessToken { value: "old".into(), refresh_at: now, ends_at: now + hour });
        (tokens, server, endpoint)
    }

    #[tokio::test]
    async fn one_task_renews_early_while_others_use_the_old_token() {
        let (tokens, _server, endpoint) = due(true).await;
        let all = futures_util::future::join_all((0..10).map(|_| tokens.get(None))).await;
        let got: Vec<_> = all.into_iter().map(|one| one.unwrap().0.expose_secret().to_owned()).collect();
        assert_eq!(got.iter().filter(|token| *token == "new").count(), 1, "{got:?}");
        assert_eq!(tokens.get(None).await.unwrap().0.expose_secret(), "new");
        assert_eq!(endpoint.0.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn old_token_is_used_during_an_outage_unless_it_was_refused() {
        let (tokens, _server, _endpoint) = due(false).await;
        let (old, is_new) = tokens.get(None).await.unwrap();
        assert_eq!((old.expose_secret(), is_new), ("old", false));
        assert!(matches!(tokens.get(Some(&old)).await, Err(Failure::NoToken { is_refused: false, .. })));
    }
}
