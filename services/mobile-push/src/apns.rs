//! APNs (Apple Push Notification service) over HTTP/2. All pushes of a provider share one connection.
//!
//! <https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns>

pub mod answers;
mod notification;
mod settings;
mod token;

use std::time::Duration;

use domain::content::PushContent;
use domain::{Answer, Outcome, Timestamp};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use uuid::Uuid;
use worker::exchange::{Caller, Silence};
use worker::{Call, Outbound};

use crate::CALL_LIMIT;
use crate::answers::{ours, told};
use crate::options::Message;
use notification::Notification;
pub use settings::APNS;
use settings::{ApnsSettings, Auth};
pub use token::ProviderToken;

/// Maximum number of concurrent requests. APNs allows about 1,000 streams per connection; the client queues the requests
/// beyond that.
const MAX_STREAMS: usize = 500;
/// Time without requests after which a connection is closed. Apple asks to keep connections open.
const IDLE: Duration = Duration::from_secs(3_600);
/// Interval of pings on a connection, and time limit for a response to one.
const PING: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(10));
/// Device token for probes; no device can have it.
const IMPOSSIBLE_TOKEN: &str = "0000000000000000000000000000000000000000000000000000000000000000";
/// Maximum length of a device token in bytes. Longer than today's tokens, because Apple warns that their length may change.
const LONGEST_TOKEN: usize = 400;

/// A connection to APNs and the credential for it.
pub(crate) struct ApnsClient {
    settings: ApnsSettings,
    http: Caller,
    limit: Duration,
    streams: Semaphore,
}

impl ApnsClient {
    pub(crate) const KIND: &str = "apns";

    /// Creates a client whose attempts take at most `limit` each. The error names the invalid settings.
    pub(crate) fn open(outbound: Outbound, limit: Duration, settings: &Value) -> Result<ApnsClient, String> {
        let settings = ApnsSettings::parse(settings).map_err(told)?;
        // HTTP/2 without negotiation lets the pool share a connection before it is open, so later pushes wait for it. Pushes
        // that start at the same moment may still open a second connection.
        let mut http = outbound
            .client()
            .http2_prior_knowledge()
            .http2_keep_alive_interval(PING.0)
            .http2_keep_alive_timeout(PING.1)
            .http2_keep_alive_while_idle(true)
            .pool_idle_timeout(IDLE);
        if !settings.authorities.is_empty() {
            http = http.tls_certs_merge(settings.authorities.clone());
        }
        if let Auth::Certificate(identity) = &settings.auth {
            http = http.identity(identity.clone());
        }
        let http =
            http.build().map_err(|error| format!("cannot create a client: {}", error.without_url()))?;
        let http = Caller::new(http, outbound, CALL_LIMIT);
        Ok(ApnsClient { settings, http, limit, streams: Semaphore::new(MAX_STREAMS) })
    }

    /// Makes one attempt. If APNs reports the provider token as expired, renews the token and repeats the push at once.
    pub(crate) async fn send(&self, call: &Call<'_>, token: &str, content: &PushContent) -> Answer {
        let is_sound = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if token.is_empty() || token.len() > LONGEST_TOKEN || !token.bytes().all(is_sound) {
            return ours(Outcome::GONE, "token", "the token is not an APNs token");
        }
        let message = match Message::read(call, content) {
            Ok(message) => message,
            Err(answer) => return answer,
        };
        match Notification::of(&message, &self.settings.topic) {
            Ok(notification) => self.push(&notification, token, call.now).await,
            Err(answer) => answer,
        }
    }

    async fn push(&self, notification: &Notification, token: &str, now: Timestamp) -> Answer {
        let http = &self.http.within(self.limit);
        let Ok(Ok(_stream)) = tokio::time::timeout(http.time_left(), self.streams.acquire()).await else {
            return ours(Outcome::RETRY, "busy", "too many pushes are in progress");
        };
        let bearer = match &self.settings.auth {
            Auth::Certificate(_) => return self.post(http, notification, token, None, now).await,
            Auth::Token(provider_token) => provider_token.current(now),
        };
        let bearer = match bearer {
            Ok(bearer) => bearer,
            Err(problem) => return ours(Outcome::PauseProvider, "token", problem.to_string()),
        };
        let answer = self.post(http, notification, token, Some(&bearer), now).await;
        match &self.settings.auth {
            Auth::Token(provider_token) if answer.code == answers::EXPIRED => {
                match provider_token.instead_of(&bearer, now) {
                    Ok(Some(renewed)) => self.post(http, notification, token, Some(&renewed), now).await,
                    Ok(None) => answer,
                    Err(problem) => ours(Outcome::PauseProvider, "token", problem.to_string()),
                }
            }
            _ => answer,
        }
    }

    async fn post(
        &self,
        http: &Caller,
        notification: &Notification,
        token: &str,
        bearer: Option<&str>,
        now: Timestamp,
    ) -> Answer {
        let mut url = self.settings.base.clone();
        url.set_path(&format!("{}/3/device/{token}", url.path().trim_end_matches('/')));
        let mut request = http.client().post(url).header(CONTENT_TYPE, "application/json");
        for (name, value) in &notification.headers {
            request = request.header(*name, value);
        }
        if let Some(bearer) = bearer {
            request = request.header(AUTHORIZATION, format!("bearer {bearer}"));
        }
        let called = http.call(request.body(notification.payload.clone()), now).await;
        called.map_or_else(Silence::answer, |reply| answers::answer(&reply, token))
    }

    /// Checks the credential and the topic by a push to a token that no device has.
    pub(crate) async fn probe(&self, now: Timestamp) -> Result<String, Answer> {
        let headers = vec![
            ("apns-id", Uuid::nil().to_string()),
            ("apns-topic", self.settings.topic.clone()),
            ("apns-push-type", "alert".to_owned()),
            ("apns-priority", "10".to_owned()),
        ];
        let payload = json!({"aps": {"alert": "probe"}}).to_string().into();
        let answer = self.push(&Notification { headers, payload }, IMPOSSIBLE_TOKEN, now).await;
        match answer.outcome {
            // APNs checks the device token only after it has accepted the credential.
            Outcome::TargetGone(_) => Ok(format!(
                "APNs at {} accepted the credential for the topic {}",
                self.settings.base.host_str().unwrap_or_default(),
                self.settings.topic
            )),
            _ => Err(answer),
        }
    }
}
