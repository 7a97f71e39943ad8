//! HTTP calls to push services (RFC 8030, section 5).

use std::time::Duration;

use domain::Timestamp;
use domain::web_push::Urgency;
use reqwest::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION};
use reqwest::{Client, Response, Url};
use worker::Outbound;
use worker::exchange::in_time;
use worker::outbound::{ForbiddenHost, UnresolvedHost, read_at_most, retry_after};

use crate::answers::{Failure, Reply};

/// Bytes of a response body; the rest is ignored.
const MAX_ANSWER: usize = 4 * 1024;
const MAX_ID: usize = 200;
/// Interval of pings on a connection, and time limit for the response.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Uses HTTP/2 if the push service supports it.
pub(crate) struct PushClient {
    outbound: Outbound,
    client: Client,
    limit: Duration,
}

pub(crate) struct Message<'a> {
    pub(crate) endpoint: &'a str,
    pub(crate) authorization: HeaderValue,
    /// Time for which the push service keeps the message, in seconds.
    pub(crate) ttl: u32,
    pub(crate) urgency: Urgency,
    pub(crate) topic: String,
    pub(crate) body: Vec<u8>,
}

impl PushClient {
    /// Limits each call to `limit`, including the response.
    pub(crate) fn new(outbound: Outbound, limit: Duration) -> reqwest::Result<PushClient> {
        let client = outbound
            .client()
            .http2_keep_alive_interval(KEEP_ALIVE)
            .http2_keep_alive_timeout(KEEP_ALIVE)
            .build()?;
        Ok(PushClient { outbound, client, limit })
    }

    /// The caller must have checked the endpoint's host.
    pub(crate) async fn push(&self, message: Message<'_>, now: Timestamp) -> Result<Reply, Failure> {
        let url = Url::parse(message.endpoint).map_err(|error| Failure::Connect(error.to_string()))?;
        self.outbound.check(&url).map_err(Failure::Forbidden)?;
        let request = self
            .client
            .post(url)
            .timeout(self.limit)
            .header(AUTHORIZATION, message.authorization)
            .header(CONTENT_ENCODING, "aes128gcm")
            .header(CONTENT_TYPE, "application/octet-stream")
            .header("ttl", message.ttl)
            .header("urgency", message.urgency.as_str())
            .header("topic", message.topic)
            .body(message.body);
        let response =
            in_time(self.limit, request.send()).await.ok_or(Failure::TimedOut)?.map_err(failure)?;
        reply(response, now).await
    }
}

async fn reply(response: Response, now: Timestamp) -> Result<Reply, Failure> {
    let status = response.status();
    let (retry_after, id) = (retry_after(response.headers(), now), id(response.headers()));
    let text = match read_at_most(response, MAX_ANSWER).await {
        Ok(body) => String::from_utf8_lossy(&body).into_owned(),
        // The status alone decides the verdict, so a lost body is not a failure.
        Err(error) => format!("(the rest was lost: {})", cause(error)),
    };
    Ok(Reply { status: status.as_u16(), retry_after, id, text })
}

/// Returns Apple's `apns-id`, or else the last segment of `Location` (RFC 8030, section 5). The whole URL is not recorded, because anyone
/// who knows it can delete the message.
fn id(headers: &HeaderMap) -> Option<String> {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let id = text("apns-id").or_else(|| text(LOCATION.as_str())?.rsplit('/').next())?;
    (!id.is_empty()).then(|| id.chars().take(MAX_ID).collect())
}

fn failure(error: reqwest::Error) -> Failure {
    if let Some(refused) = ForbiddenHost::among(&error) {
        Failure::Forbidden(refused.clone())
    } else if let Some(unresolved) = UnresolvedHost::among(&error) {
        Failure::Unresolved(unresolved.to_string())
    } else if error.is_connect() {
        Failure::Connect(cause(error))
    } else if error.is_timeout() {
        Failure::TimedOut
    } else {
        Failure::Lost(cause(error))
    }
}

/// Returns the innermost cause, without the URL, because the URL is a secret of the browser.
fn cause(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut innermost: &dyn std::error::Error = &error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
