use domain::content::PushContent;
use domain::mobile_push::fcm;
use domain::mobile_push::message::Message;
use domain::{Answer, Outcome, Problem, Timestamp, UserNumber};
use reqwest::header::CONTENT_TYPE;
use serde_json::{Value, json};
use tokio::sync::{OnceCell, Semaphore};
use worker::exchange::{Caller, NoReply};
use worker::{Attempt, Call, Outbound, Probe, ProviderKind, Refusals};

use super::access_token::AccessTokens;
use super::answers;
use super::settings::FcmSettings;
use crate::calls::{CALL_LIMIT, Calls, PROBE_LIMIT, no_client};

const MAX_REQUESTS: usize = 500;
/// No device can have this token.
const IMPOSSIBLE_TOKEN: &str = "tidings probe";

/// Each provider serves one Firebase project.
pub struct Fcm;

pub struct FcmProvider {
    settings: FcmSettings,
    http: OnceCell<Caller>,
    access: AccessTokens,
    requests: Semaphore,
    mismatches: Refusals,
}

impl ProviderKind for Fcm {
    type Resources = Calls;
    type Settings = FcmProvider;

    const NAME: &'static str = "fcm";
    const SECRETS: &'static [&'static str] = &["serviceAccount"];
    const EXAMPLE: &'static str = r#"{
    "serviceAccount": "...",         the JSON file of a service account, as an object or as its text
    "baseUrl": "https://fcm.googleapis.com",            optional
    "tokenUrl": "https://oauth2.googleapis.com/token"   optional: another OAuth server than the file's
  }"#;

    fn parse(settings: &Value) -> Result<FcmProvider, Vec<Problem>> {
        Ok(FcmProvider {
            settings: FcmSettings::parse(settings)?,
            http: OnceCell::new(),
            access: AccessTokens::default(),
            requests: Semaphore::new(MAX_REQUESTS),
            mismatches: Refusals::default(),
        })
    }

    async fn send(attempt: Attempt<'_, Calls>, provider: &FcmProvider) -> Answer {
        let Attempt { resources: calls, call, input: push } = attempt;
        match push.token_of(Self::NAME) {
            Ok(token) => provider.send(calls, call, token, push.content).await,
            Err(answer) => answer,
        }
    }

    /// Sends a message that FCM only validates.
    async fn probe(provider: &FcmProvider, probe: &Probe<'_>) -> Result<String, Answer> {
        let message = json!({"token": IMPOSSIBLE_TOKEN, "notification": {"title": "probe"}});
        let body = json!({"validate_only": true, "message": message});
        let calls = Calls { outbound: probe.outbound, limit: PROBE_LIMIT };
        let answer = provider.post(&calls, &body, "", probe.now).await;
        let account = &provider.settings.account;
        match answer.outcome {
            // FCM checks the credential before the device token, so an invalid device token means that the credential
            // is accepted.
            Outcome::TargetGone(_) => Ok(format!(
                "FCM accepted the service account {} for the project {}",
                account.client_email, account.project_id
            )),
            _ => Err(answer),
        }
    }
}

impl FcmProvider {
    async fn send(&self, calls: &Calls, call: &Call<'_>, token: &str, content: &PushContent) -> Answer {
        let message = Message::read(call.job.delivery_id, call.job.expires_at, call.now, content)
            .and_then(|message| fcm::of(&message, token));
        match message {
            Ok((message, cut)) => {
                let answer = self.post(calls, &json!({"message": message}), token, call.now).await;
                self.counted(answer.noting(cut), call.job.user)
            }
            Err(answer) => answer,
        }
    }

    async fn http(&self, outbound: Outbound) -> Result<&Caller, Answer> {
        let connect = || async {
            let http = outbound.client().build().map_err(|error| no_client(&error.without_url()))?;
            Ok(Caller::new(http, outbound, CALL_LIMIT))
        };
        self.http.get_or_try_init(connect).await
    }

    /// Fetches a new access token and repeats the request at once if FCM rejects the current one.
    async fn post(&self, calls: &Calls, body: &Value, token: &str, now: Timestamp) -> Answer {
        let http = match self.http(calls.outbound).await {
            Ok(http) => &http.within(calls.limit),
            Err(answer) => return answer,
        };
        let Ok(Ok(_request)) = tokio::time::timeout(http.time_left(), self.requests.acquire()).await else {
            return Answer::new(Outcome::RETRY, "busy", "too many messages are in progress");
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
        called.map_or_else(NoReply::answer, |reply| answers::answer(&reply, token))
    }

    /// Fails only the delivery if its device token belongs to another Firebase project. Pauses the provider if there are too many users
    /// with such tokens, because its project is probably wrong.
    fn counted(&self, answer: Answer, user: UserNumber) -> Answer {
        let is_mismatch = answer.code == answers::MISMATCH;
        // Other answers do not show which project a token belongs to.
        if !is_mismatch && !matches!(answer.outcome, Outcome::Sent { .. }) {
            return answer;
        }
        if !self.mismatches.too_many_with(user, is_mismatch) {
            return answer;
        }
        let message = "too many tokens belong to another Firebase project; check the service account";
        Answer { outcome: Outcome::PauseProvider, message: message.to_owned(), ..answer }
    }
}
