//! Apple's push service over HTTP/2: one connection that all pushes of a provider share.
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

/// Requests under way at once. APNs allows about 1,000 on a connection; what it does not allow waits in the client.
const MAX_STREAMS: usize = 500;
/// Apple asks to keep connections open; one that is silent for this long is closed.
const IDLE: Duration = Duration::from_secs(3_600);
/// Interval of pings on a connection, and time for their answer.
const PING: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(10));
/// No device can have it.
const IMPOSSIBLE_TOKEN: &str = "0000000000000000000000000000000000000000000000000000000000000000";
/// Longest token that is tried. Apple warns that their length may change.
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

    /// A client whose attempts take at most `limit` each.
    pub(crate) fn open(outbound: Outbound, limit: Duration, settings: &Value) -> Result<ApnsClient, String> {
        let settings = ApnsSettings::parse(settings).map_err(told)?;
        // Without negotiation the pool knows that the connection can be shared, and later pushes wait for it. A push that
        // comes at the moment when it is opened can open a second one.
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
        let http = http.build().map_err(|error| format!("no client can be made: {}", error.without_url()))?;
        let http = Caller::new(http, outbound, CALL_LIMIT);
        Ok(ApnsClient { settings, http, limit, streams: Semaphore::new(MAX_STREAMS) })
    }

    /// Makes one attempt. A provider token that APNs calls expired is renewed, and the push made again at once.
    pub(crate) async fn send(&self, call: &Call<'_>, token: &str, content: &PushContent) -> Answer {
        let is_sound = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if token.is_empty() || token.len() > LONGEST_TOKEN || !token.bytes().all(is_sound) {
            return ours(Outcome::GONE, "token", "the token is none of Apple's");
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
            return ours(Outcome::RETRY, "busy", "too many pushes were under way");
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

    /// Proves the credential.
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
            // It looks at the token once it believes the credential.
            Outcome::TargetGone(_) => Ok(format!(
                "APNs at {} believes the credential for the topic {}",
                self.settings.base.host_str().unwrap_or_default(),
                self.settings.topic
            )),
            _ => Err(answer),
        }
    }
}
