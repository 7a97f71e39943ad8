//! One call over HTTP, and what it means that no answer came.

use std::error::Error;
use std::time::{Duration, Instant};

use bytes::Bytes;
use domain::{Answer, Outcome, Timestamp};
use h2::Reason;
use reqwest::header::HeaderMap;
use reqwest::{Client, RequestBuilder};

use crate::Outbound;
use crate::outbound::{NotPublic, read_at_most, retry_after};

/// Bytes read of an answer.
const MOST_READ: usize = 64 * 1024;

/// Makes calls to where they may go. Clones share their connections.
#[derive(Clone, Debug)]
pub struct Caller {
    client: Client,
    outbound: Outbound,
    limit: Duration,
    deadline: Option<Instant>,
}

/// What a provider answered.
#[derive(Clone, Debug)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The beginning of the body; where it broke off and the status says it all, nothing.
    pub body: Bytes,
    /// How long the provider asks to wait.
    pub retry_after: Option<Duration>,
}

/// Why there is no reply. No cause names the URL, which may name the recipient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Silence {
    /// The request cannot be made.
    Malformed(String),
    /// The host must not be called.
    Forbidden(NotPublic),
    /// The URL is not https: whoever listens would have the credential.
    InTheClear,
    /// No connection was made: nothing was sent.
    NotConnected(String),
    /// The server closed the connection without having looked at the request (RFC 9113 sections 6.8 and 8.7).
    Refused(String),
    /// Nothing was said in time; the request may have arrived.
    TimedOut,
    /// The connection broke; the request may have arrived.
    Lost(String),
    /// A refusal of this status broke off before it had said why. Nothing was taken.
    CutShort(u16),
}

impl Caller {
    /// Calls through `client`, which `outbound` began; each takes at most `limit`, answer included.
    #[must_use]
    pub fn new(client: Client, outbound: Outbound, limit: Duration) -> Caller {
        Caller { client, outbound, limit, deadline: None }
    }

    /// The same for an attempt of several calls and waits, all of which end within `limit` from now.
    #[must_use]
    pub fn within(&self, limit: Duration) -> Caller {
        Caller { deadline: Instant::now().checked_add(limit), ..self.clone() }
    }

    /// How long a call that begins now, or a wait before it, may take.
    #[must_use]
    pub fn time_left(&self) -> Duration {
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        left.map_or(self.limit, |left| left.min(self.limit))
    }

    /// Begins requests.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Makes a call: over https alone, unless private addresses may be called.
    ///
    /// # Errors
    /// There is no answer.
    pub async fn call(&self, request: RequestBuilder, now: Timestamp) -> Result<Reply, Silence> {
        let limit = self.time_left();
        if limit.is_zero() {
            return Err(Silence::NotConnected("no time was left for the call".to_owned()));
        }
        let request = request.timeout(limit).build();
        let request = request.map_err(|error| Silence::Malformed(root(&error).to_string()))?;
        self.outbound.check(request.url()).map_err(Silence::Forbidden)?;
        if request.url().scheme() != "https" && !self.outbound.allows_private() {
            return Err(Silence::InTheClear);
        }
        let response = self.client.execute(request).await.map_err(|error| silence(&error))?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let retry_after = retry_after(&headers, now);
        let body = match read_at_most(response, MOST_READ).await {
            Ok(body) => body,
            Err(_) if names_its_cause(status) => return Err(Silence::CutShort(status)),
            // The status says it all; only words are missing.
            Err(_) => Bytes::new(),
        };
        Ok(Reply { status, headers, body, retry_after })
    }
}

impl Silence {
    /// The answer to an attempt that was met with silence. What may have arrived is unknown.
    #[must_use]
    pub fn answer(self) -> Answer {
        match self {
            Silence::Malformed(cause) => Answer::new(Outcome::Failed, "request", cause),
            Silence::Forbidden(refused) => {
                Answer::new(Outcome::PauseProvider, "not_public", refused.to_string())
            }
            Silence::InTheClear => Answer::new(
                Outcome::PauseProvider,
                "insecure_url",
                "the URL must be https unless private addresses are allowed (outbound.allow_private)",
            ),
            Silence::NotConnected(cause) => Answer::new(Outcome::RETRY, "connect", cause).blaming_provider(),
            Silence::Refused(cause) => Answer::new(Outcome::RETRY, "goaway", cause),
            Silence::TimedOut => Answer::new(Outcome::Unknown, "timeout", "no answer in time"),
            Silence::Lost(cause) => Answer::new(Outcome::Unknown, "connection_lost", cause),
            Silence::CutShort(status) => {
                let message = format!("a refusal with status {status} broke off before it said why");
                Answer::new(Outcome::RETRY, "cut_short", message).sparing_provider()
            }
        }
    }
}

/// Whether the body tells a dead target from a wrong credential or a wrong message. "Too late" and "too many" need none.
fn names_its_cause(status: u16) -> bool {
    matches!(status, 400..=499) && !matches!(status, 408 | 429)
}

fn silence(error: &reqwest::Error) -> Silence {
    let cause = || root(error).to_string();
    if let Some(refused) = NotPublic::among(error) {
        return Silence::Forbidden(refused.clone());
    }
    match error {
        error if error.is_connect() => Silence::NotConnected(cause()),
        error if was_refused(error) => Silence::Refused(cause()),
        error if error.is_timeout() => Silence::TimedOut,
        _ => Silence::Lost(cause()),
    }
}

fn was_refused(error: &reqwest::Error) -> bool {
    let causes = std::iter::successors(error.source(), |error| (**error).source());
    let said = causes.filter_map(|cause| cause.downcast_ref::<h2::Error>()).next();
    said.is_some_and(|error| {
        let is_late = error.is_go_away() && error.reason() == Some(Reason::NO_ERROR);
        let is_refused = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
        error.is_remote() && (is_late || is_refused)
    })
}

/// The innermost cause; the outer ones name the URL.
fn root<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    let mut error = error;
    while let Some(cause) = error.source() {
        error = cause;
    }
    error
}
