use std::time::Duration;

use domain::content::PushContent;
use domain::mobile_push::message::Message;
use domain::{Answer, Outcome, Problem, Timestamp};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE};
use serde_json::{Value, json};
use tokio::sync::{OnceCell, Semaphore};
use uuid::Uuid;
use worker::exchange::{Caller, NoReply};
use worker::{Attempt, Call, Outbound, Probe, ProviderKind};

use super::answers;
use super::notification::Notification;
use super::settings::{ApnsSettings, Auth};
use crate::calls::{CALL_LIMIT, Calls, PROBE_LIMIT, no_client};

/// APNs allows about 1,000 streams per connection, and the HTTP client would queue further requests.
const MAX_STREAMS: usize = 500;
/// Apple asks clients to keep connections open.
const IDLE: Duration = Duration::from_secs(3_600);
/// Interval of pings on a connection, and time limit for the response.
const PING: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(10));
/// No device can have this token.
const IMPOSSIBLE_TOKEN: &str = "0000000000000000000000000000000000000000000000000000000000000000";
/// Length in bytes. Today's tokens are shorter, but Apple warns that their length may change.
const LONGEST_TOKEN: usize = 400;

/// Each provider serves one iOS app.
pub struct Apns;

pub struct ApnsProvider {
    settings: ApnsSettings,
    http: OnceCell<Caller>,
    streams: Semaphore,
}

impl ProviderKind for Apns {
    type Resources = Calls;
    type Settings = ApnsProvider;

    const NAME: &'static str = "apns";
    const SECRETS: &'static [&'static str] = &["key"];
    const EXAMPLE: &'static str = r#"{
    "environment": "production",     production or sandbox; a device token is valid in one of them
    "topic": "com.example.shop",     the app's bundle id
    "teamId": "DEF123GHIJ",          teamId and keyId for a .p8 file; for a certificate, "certificate" (PEM) instead
    "keyId": "ABC123DEFG",
    "key": "-----BEGIN PRIVATE KEY-----",     content of the .p8 file, or private key of the certificate
    "baseUrl": "https://push.example.com",    optional: another server than Apple's
    "caCertificate": ""              optional: PEM of authorities to trust in addition to the system's
  }"#;

    fn parse(settings: &Value) -> Result<ApnsProvider, Vec<Problem>> {
        let settings = ApnsSettings::parse(settings)?;
        Ok(ApnsProvider { settings, http: OnceCell::new(), streams: Semaphore::new(MAX_STREAMS) })
    }

    async fn send(attempt: Attempt<'_, Calls>, provider: &ApnsProvider) -> Answer {
        let Attempt { resources: calls, call, input: push } = attempt;
        match push.token_of(Self::NAME) {
            Ok(token) => provider.send(calls, call, token, push.content).await,
            Err(answer) => answer,
        }
    }

    /// Checks the credential and the topic with a push to a token that no device has.
    async fn probe(provider: &ApnsProvider, probe: &Probe<'_>) -> Result<String, Answer> {
        let settings = &provider.settings;
        let headers = vec![
            ("apns-id", Uuid::nil().to_string()),
            ("apns-topic", settings.topic.clone()),
            ("apns-push-type", "alert".to_owned()),
            ("apns-priority", "10".to_owned()),
        ];
        let payload = json!({"aps": {"alert": "probe"}}).to_string().into();
        let calls = Calls { outbound: probe.outbound, limit: PROBE_LIMIT };
        let notification = Notification { headers, payload, cut: None };
        let answer = provider.push(&calls, &notification, IMPOSSIBLE_TOKEN, probe.now).await;
        match answer.outcome {
            // APNs checks the credential before the device token, so an invalid device token means that the credential
            // is accepted.
            Outcome::TargetGone(_) => Ok(format!(
                "APNs at {} accepted the credential for the topic {}",
                settings.base.host_str().unwrap_or_default(),
                settings.topic
            )),
            _ => Err(answer),
        }
    }
}

impl ApnsProvider {
    async fn send(&self, calls: &Calls, call: &Call<'_>, token: &str, content: &PushContent) -> Answer {
        let is_sound = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if token.is_empty() || token.len() > LONGEST_TOKEN || !token.bytes().all(is_sound) {
            return Answer::new(Outcome::GONE, "token", "the token is not an APNs token");
        }
        let notification = Message::read(call.job.delivery_id, call.job.expires_at, call.now, content)
            .and_then(|message| Notification::of(&message, &self.settings.topic));
        match notification {
            Ok(notification) => {
                self.push(calls, &notification, token, call.now).await.noting(notification.cut)
            }
            Err(answer) => answer,
        }
    }

    async fn http(&self, outbound: Outbound) -> Result<&Caller, Answer> {
        self.http.get_or_try_init(|| async { self.connect(outbound) }).await
    }

    fn connect(&self, outbound: Outbound) -> Result<Caller, Answer> {
        // With HTTP/2 by prior knowledge, a push that starts while the connection is being opened waits for it, and opens
        // no second connection. Pushes that start at the same moment may still open a second one.
        let mut http = outbound
            .client()
            .http2_prior_knowledge()
            .http2_keep_alive_interval(PING.0)
            .http2_keep_alive_timeout(PING.1)
            .http2_keep_alive_while_idle(true)
            .pool_idle_timeout(IDLE);
        if !self.settings.authorities.is_empty() {
            http = http.tls_certs_merge(self.settings.authorities.clone());
        }
        if let Auth::Certificate(identity) = &self.settings.auth {
            http = http.identity(identity.clone());
        }
        let http = http.build().map_err(|error| no_client(&error.without_url()))?;
        Ok(Caller::new(http, outbound, CALL_LIMIT))
    }

    /// Renews the token and pushes again at once if APNs reports the token as expired. A token younger than 20 minutes is not renewed.
    async fn push(&self, calls: &Calls, notification: &Notification, token: &str, now: Timestamp) -> Answer {
        let http = match self.http(calls.outbound).await {
            Ok(http) => &http.within(calls.limit),
            Err(answer) => return answer,
        };
        let Ok(Ok(_stream)) = tokio::time::timeout(http.time_left(), self.streams.acquire()).await else {
            return Answer::new(Outcome::RETRY, "busy", "too many pushes are in progress");
        };
        let bearer = match &self.settings.auth {
            Auth::Certificate(_) => return self.post(http, notification, token, None, now).await,
            Auth::Token(provider_token) => provider_token.current(now),
        };
        let bearer = match bearer {
            Ok(bearer) => bearer,
            Err(problem) => return Answer::new(Outcome::PauseProvider, "token", problem.to_string()),
        };
        let answer = self.post(http, notification, token, Some(&bearer), now).await;
        match &self.settings.auth {
            Auth::Token(provider_token) if answer.code == answers::EXPIRED => {
                match provider_token.instead_of(&bearer, now) {
                    Ok(Some(renewed)) => self.post(http, notification, token, Some(&renewed), now).await,
                    Ok(None) => answer,
                    Err(problem) => Answer::new(Outcome::PauseProvider, "token", problem.to_string()),
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
        called.map_or_else(NoReply::answer, |reply| answers::answer(&reply, token))
    }
}
