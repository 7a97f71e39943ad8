use std::time::Duration;

use bytes::Bytes;
use credentials::webhook::{Secret, signatures};
use domain::Timestamp;
use domain::webhook::{InvalidUrl, parse_url};
use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, StatusCode};
use service_kit::clock;
use tokio::time::timeout;
use url::Url;
use uuid::Uuid;
use worker::Outbound;
use worker::outbound::{ForbiddenHost, read_at_most, retry_after};

/// Bytes of a response body. The command that sends a test call shows them.
const MAX_ANSWER: usize = 4 * 1024;

#[derive(Clone)]
pub struct Caller {
    outbound: Outbound,
    client: Client,
    limit: Duration,
}

#[derive(Clone, Copy)]
pub struct Message<'a> {
    /// The same in every attempt.
    pub id: Uuid,
    /// JSON text.
    pub body: &'a str,
    pub secrets: &'a [Secret],
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// None if the endpoint did not answer.
    pub status: Option<u16>,
    /// HTTP status as text, or the failure: `timeout`, `connect`, `connection_lost`, `not_public`, `not_https`, `url`,
    /// `secret`.
    pub code: String,
    pub retry_after: Option<Duration>,
    /// First part of the response body.
    pub body: Bytes,
}

impl Caller {
    /// Limits each call to `limit`, including receiving the whole answer.
    pub fn new(outbound: Outbound, limit: Duration) -> reqwest::Result<Caller> {
        Ok(Caller { outbound, client: outbound.client().build()?, limit })
    }

    pub async fn post(&self, url: &str, message: Message<'_>) -> Answer {
        let url = match parse_url(url, self.outbound.allows_private()) {
            Ok(url) => url,
            Err(InvalidUrl::NotHttps) => return Answer::none("not_https"),
            Err(InvalidUrl::NotPublic(_)) => return Answer::none("not_public"),
            Err(InvalidUrl::Malformed(_) | InvalidUrl::Credentials) => return Answer::none("url"),
        };
        let now = clock::now();
        match timeout(self.limit, self.exchange(url, message, now)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => Answer::none(code(&error)),
            Err(_) => Answer::none("timeout"),
        }
    }

    async fn exchange(&self, url: Url, message: Message<'_>, now: Timestamp) -> reqwest::Result<Answer> {
        let Message { id, body, secrets } = message;
        let (id, seconds) = (id.to_string(), now.millis().div_euclid(1_000));
        let response = self
            .client
            .post(url)
            .header(CONTENT_TYPE, "application/json")
            .header("webhook-signature", signatures(secrets, &id, seconds, body))
            .header("webhook-id", id)
            .header("webhook-timestamp", seconds.to_string())
            .body(body.to_owned())
            .send()
            .await?;
        let status = response.status();
        let retry_after = retry_after(response.headers(), now);
        // If the body cannot be read, continue without it: only the status matters, and only operators see the body.
        let body = read_at_most(response, MAX_ANSWER).await.unwrap_or_default();
        Ok(Answer { status: Some(status.as_u16()), code: status.as_u16().to_string(), retry_after, body })
    }
}

impl Answer {
    /// Result for a message that was not sent because it could not be signed.
    pub(crate) fn unsigned() -> Answer {
        Answer::none("secret")
    }

    fn none(code: &str) -> Answer {
        Answer { status: None, code: code.to_owned(), retry_after: None, body: Bytes::new() }
    }

    #[must_use]
    pub fn is_accepted(&self) -> bool {
        self.status().is_some_and(|status| status.is_success())
    }

    /// Returns true if the endpoint refuses all further messages (410).
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.status() == Some(StatusCode::GONE)
    }

    fn status(&self) -> Option<StatusCode> {
        self.status.and_then(|status| StatusCode::from_u16(status).ok())
    }
}

fn code(error: &reqwest::Error) -> &'static str {
    if ForbiddenHost::among(error).is_some() {
        "not_public"
    } else if error.is_timeout() {
        "timeout"
    } else if error.is_connect() {
        "connect"
    } else {
        "connection_lost"
    }
}
