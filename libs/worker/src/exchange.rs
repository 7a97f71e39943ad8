use std::error::Error;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use domain::{Answer, Outcome, Timestamp};
use h2::Reason;
use reqwest::header::HeaderMap;
use reqwest::{Client, RequestBuilder};

use crate::Outbound;
use crate::outbound::{ForbiddenHost, read_at_most, retry_after};

const MOST_READ: usize = 64 * 1024;

/// Clones share their connections.
#[derive(Clone, Debug)]
pub struct Caller {
    client: Client,
    outbound: Outbound,
    limit: Duration,
    deadline: Option<Instant>,
}

#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    /// The first 64 KiB; empty if the connection broke and the status alone determines the outcome.
    pub body: Bytes,
    pub retry_after: Option<Duration>,
}

/// Causes never contain the URL, because the URL may identify the recipient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoReply {
    Malformed(String),
    Forbidden(ForbiddenHost),
    /// The URL is not https, so an eavesdropper could read the credential.
    InTheClear,
    /// Nothing was sent.
    NotConnected(String),
    /// The server closed the connection without processing the request (RFC 9113, sections 6.8 and 8.7).
    Refused(String),
    /// The request may have arrived.
    TimedOut,
    /// The connection broke; the request may have arrived.
    Lost(String),
    /// The provider refused the message with this status, but the connection broke before the body, which states the reason, was
    /// complete.
    CutShort(u16),
}

impl Caller {
    /// Requires a `client` that `outbound` built. `limit` is for one call, including reading its reply.
    #[must_use]
    pub fn new(client: Client, outbound: Outbound, limit: Duration) -> Caller {
        Caller { client, outbound, limit, deadline: None }
    }

    /// Caller for an attempt of several calls and waits: `limit` is for all of them together, starting now.
    #[must_use]
    pub fn within(&self, limit: Duration) -> Caller {
        Caller { deadline: Instant::now().checked_add(limit), ..self.clone() }
    }

    #[must_use]
    pub fn time_left(&self) -> Duration {
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        left.map_or(self.limit, |left| left.min(self.limit))
    }

    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Requires https unless private addresses are allowed.
    pub async fn call(&self, request: RequestBuilder, now: Timestamp) -> Result<Reply, NoReply> {
        let limit = self.time_left();
        if limit.is_zero() {
            return Err(NoReply::NotConnected("no time was left for the call".to_owned()));
        }
        let request = request.timeout(limit).build();
        let request = request.map_err(|error| NoReply::Malformed(root(&error).to_string()))?;
        self.outbound.check(request.url()).map_err(NoReply::Forbidden)?;
        if request.url().scheme() != "https" && !self.outbound.allows_private() {
            return Err(NoReply::InTheClear);
        }
        let response = in_time(limit, self.client.execute(request)).await.ok_or(NoReply::TimedOut)?;
        let response = response.map_err(|error| no_reply(&error))?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let retry_after = retry_after(&headers, now);
        let body = match read_at_most(response, MOST_READ).await {
            Ok(body) => body,
            Err(_) if names_its_cause(status) => return Err(NoReply::CutShort(status)),
            // The status alone determines the outcome, so only the provider's text is lost.
            Err(_) => Bytes::new(),
        };
        Ok(Reply { status, headers, body, retry_after })
    }
}

/// Awaits a call whose own time limit is `limit`. Reads the clock before each poll: the runtime's timer may notice too late that a paused
/// process's limit has passed, and the request would be sent although the lease has ended.
pub async fn in_time<F: Future>(limit: Duration, call: F) -> Option<F::Output> {
    let began = Instant::now();
    let mut call = pin!(call);
    poll_fn(|context| match began.elapsed() {
        elapsed if elapsed >= limit => Poll::Ready(None),
        _ => call.as_mut().poll(context).map(Some),
    })
    .await
}

impl NoReply {
    /// If the request may have arrived, the outcome is unknown.
    #[must_use]
    pub fn answer(self) -> Answer {
        match self {
            NoReply::Malformed(cause) => Answer::new(Outcome::Failed, "request", cause),
            NoReply::Forbidden(refused) => {
                Answer::new(Outcome::PauseProvider, "not_public", refused.to_string())
            }
            NoReply::InTheClear => Answer::new(
                Outcome::PauseProvider,
                "insecure_url",
                "the URL must be https unless private addresses are allowed (outbound.allow_private)",
            ),
            NoReply::NotConnected(cause) => Answer::new(Outcome::RETRY, "connect", cause).blaming_provider(),
            NoReply::Refused(cause) => Answer::new(Outcome::RETRY, "goaway", cause),
            NoReply::TimedOut => Answer::new(Outcome::Unknown, "timeout", "no answer in time"),
            NoReply::Lost(cause) => Answer::new(Outcome::Unknown, "connection_lost", cause),
            NoReply::CutShort(status) => {
                let message = format!(
                    "the connection broke during a refusal with status {status}, before its reason was complete"
                );
                Answer::new(Outcome::RETRY, "cut_short", message).sparing_provider()
            }
        }
    }
}

/// Bodies of these statuses alone distinguish a dead target from a wrong credential or an invalid message.
fn names_its_cause(status: u16) -> bool {
    matches!(status, 400..=499) && !matches!(status, 408 | 429)
}

fn no_reply(error: &reqwest::Error) -> NoReply {
    let cause = || root(error).to_string();
    if let Some(refused) = ForbiddenHost::among(error) {
        return NoReply::Forbidden(refused.clone());
    }
    match error {
        error if error.is_connect() => NoReply::NotConnected(cause()),
        error if was_refused(error) => NoReply::Refused(cause()),
        error if error.is_timeout() => NoReply::TimedOut,
        _ => NoReply::Lost(cause()),
    }
}

fn was_refused(error: &reqwest::Error) -> bool {
    let causes = std::iter::successors(error.source(), |error| (**error).source());
    let http2_error = causes.filter_map(|cause| cause.downcast_ref::<h2::Error>()).next();
    http2_error.is_some_and(|error| {
        let is_late = error.is_go_away() && error.reason() == Some(Reason::NO_ERROR);
        let is_refused = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
        error.is_remote() && (is_late || is_refused)
    })
}

/// Returns the innermost cause of an error. The outer errors contain the URL, which may identify the recipient.
fn root<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    let mut error = error;
    while let Some(cause) = error.source() {
        error = cause;
    }
    error
}
