//! Firebase Cloud Messaging over its HTTP v1 interface.
//!
//! <https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages/send>

mod access_token;
pub mod answers;
mod message;
mod settings;

use std::time::Duration;

use domain::content::PushContent;
use domain::{Answer, Outcome, Timestamp, UserNumber};
use reqwest::header::CONTENT_TYPE;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use worker::exchange::{Caller, Silence};
use worker::{Call, Outbound, Refusals};

use crate::CALL_LIMIT;
use crate::answers::{ours, told};
use crate::options::Message;
use access_token::AccessTokens;
pub use settings::FCM;
use settings::FcmSettings;

/// Maximum number of concurrent requests.
const MAX_REQUESTS: usize = 500;
/// Device token for probes; no device can have it.
const IMPOSSIBLE_TOKEN: &str = "tidings probe";

/// Connections to FCM and their credential.
pub(crate) struct FcmClient {
    settings: FcmSettings,
    http: Caller,
    limit: Duration,
    access: AccessTokens,
    requests: Semaphore,
    mismatches: Refusals,
}

impl FcmClient {
    pub(crate) const KIND: &str = "fcm";

    /// Creates a client whose attempts take at most `limit` each. The error names the invalid settings.
    pub(crate) fn open(outbound: Outbound, limit: Duration, settings: &Value) -> Result<FcmClient, String> {
        let settings = FcmSettings::parse(settings).map_err(told)?;
        let http = outbound.client().build();
        let http = http.map_err(|error| format!("cannot create a client: {}", error.without_url()))?;
        Ok(FcmClient {
            settings,
            http: Caller::new(http, outbound, CALL_LIMIT),
            limit,
            access: AccessTokens::default(),
            requests: Semaphore::new(MAX_REQUESTS),
            mismatches: Refusals::default(),
        })
    }

    /// Makes one attempt.
    pub(crate) async fn send(&self, call: &Call<'_>, token: &str, content: &PushContent) -> Answer {
        let message = Message::read(call, content).and_then(|message| message::of(&message, token));
        match message {
            Ok(message) => {
                self.counted(self.post(&json!({"message": message}), token, call.now).await, call.job.user)
            }
            Err(answer) => answer,
        }
    }

    /// Posts a message. If FCM rejects the access token, fetches a new token and repeats the request at once.
    async fn post(&self, body: &Value, token: &str, now: Timestamp) -> Answer {
        let http = &self.http.within(self.limit);
        let Ok(Ok(_request)) = tokio::time::timeout(http.time_left(), self.requests.acquire()).await else {
            return ours(Outcome::RETRY, "busy", "too many messages are in progress");
        };
        let bearer = match self.access.current(http, &self.settings, now).await {
            Ok(bearer) => bearer,
            Err(answer) => return answer,
        };
        let answer = self.post_as(http, &bearer, body, token, now).await;
        if !answers::distrusts(&answer) {
            return answer;
        }
        match self.access.instead_of(&bearer, http, &self.settings, now).await {
            Ok(renewed) => self.post_as(http, &renewed, body, token, now).await,
            Err(answer) => answer,
        }
    }

    async fn post_as(
        &self,
        http: &Caller,
        bearer: &str,
        body: &Value,
        token: &str,
        now: Timestamp,
    ) -> Answer {
        let mut url = self.settings.base.clone();
        let project = &self.settings.account.project_id;
        url.set_path(&format!("{}/v1/projects/{project}/messages:send", url.path().trim_end_matches('/')));
        let request = http.client().post(url).bearer_auth(bearer).header(CONTENT_TYPE, "application/json");
        let called = http.call(request.body(body.to_string()), now).await;
        called.map_or_else(Silence::answer, |reply| answers::answer(&reply, token))
    }

    /// Counts tokens of another sender. Each one fails only its own device, unless they occur for too many users; then the
    /// provider is paused, because its project is probably the wrong one.
    fn counted(&self, answer: Answer, user: UserNumber) -> Answer {
        let is_mismatch = answer.code == answers::MISMATCH;
        // Other answers do not show which sender a token belongs to.
        if !is_mismatch && !matches!(answer.outcome, Outcome::Sent { .. }) {
            return answer;
        }
        if !self.mismatches.too_many_with(user, is_mismatch) {
            return answer;
        }
        let message = "too many tokens belong to another sender: is this the right project?";
        Answer { outcome: Outcome::PauseProvider, message: message.to_owned(), ..answer }
    }

    /// Checks the credential without sending a message.
    pub(crate) async fn probe(&self, now: Timestamp) -> Result<String, Answer> {
        let message = json!({"token": IMPOSSIBLE_TOKEN, "notification": {"title": "probe"}});
        let answer = self.post(&json!({"validate_only": true, "message": message}), "", now).await;
        match answer.outcome {
            // FCM checks the device token only after it has accepted the credential.
            Outcome::TargetGone(_) => Ok(format!(
                "FCM accepted the service account {} for the project {}",
                self.settings.account.client_email, self.settings.account.project_id
            )),
            _ => Err(answer),
        }
    }
}
