//! The web push channel: encrypts a job's message, calls the push service and turns its response into an answer.

use std::time::Duration;

use credentials::click;
use domain::content::{Content, PushContent};
use domain::web_push::{MAX_TTL, PushHost, Urgency, WebPushOptions, origin_of};
use domain::{Answer, Channel, Lane, Outcome, Timestamp};
use service_kit::Context;
use store::database::batch::Batcher;
use store::directory::web_push::{BrowserKeys, SubscriptionName};
use worker::{Call, ChannelSender, Outbound};

use crate::answers;
use crate::authorization::{Authorizations, Unauthorized};
use crate::call::{Message, PushClient};
use crate::doubts::Doubts;
use crate::encryption::{MAX_PLAINTEXT, encrypt};
use crate::payload::Payload;
use crate::settings::{KIND, VapidSettings};

/// Maximum number of subscriptions that one statement looks up.
const BATCH: usize = 256;

/// Sender to browsers over their push services (RFC 8030).
pub struct WebPushSender {
    context: Context,
    hosts: Vec<PushHost>,
    client: PushClient,
    authorizations: Authorizations,
    browsers: Batcher<SubscriptionName, Option<BrowserKeys>>,
    doubts: Doubts,
}

impl WebPushSender {
    /// Creates a sender. Its look-ups run as a task of the process and end with it.
    ///
    /// # Errors
    /// TLS cannot be set up on this machine.
    pub fn new(context: &Context) -> anyhow::Result<WebPushSender> {
        let store = context.store.clone();
        let (browsers, looking_up) = Batcher::new(BATCH, move |named: Vec<SubscriptionName>| {
            let store = store.clone();
            async move { store.directory().browser_keys(&named).await }
        });
        context.spawn("web push subscriptions", async {
            looking_up.await;
            Ok(())
        });
        let outbound = Outbound::new(context.config.outbound.allow_private);
        Ok(WebPushSender {
            context: context.clone(),
            hosts: context.config.web_push.hosts.clone(),
            client: PushClient::new(outbound, call_limit(context.config.delivery.lease))?,
            authorizations: Authorizations::new(context),
            browsers,
            doubts: Doubts::new(),
        })
    }

    /// Makes one attempt. The error is an answer too: the attempt ended before the push service was called.
    pub async fn attempt(&self, call: &Call<'_>) -> Result<Answer, Answer> {
        let Call { app, provider, job, now, .. } = *call;
        let Content::Push(content) = &job.content else {
            return Err(ours(Outcome::Failed, "content", "the job carries no push message"));
        };
        let settings = settings(provider)?;
        let mut problems = Vec::new();
        let path = "override.channel.webPush";
        let options = WebPushOptions::parse(content.options.clone(), path, &mut problems);
        if !problems.is_empty() {
            return Err(ours(Outcome::Failed, "override", &told(problems)));
        }
        let Some(origin) = origin_of(&job.target, &self.hosts) else {
            let message = "the subscription is at no push service that web_push.hosts names";
            return Err(ours(Outcome::Failed, "endpoint_refused", message));
        };
        let browser = self.browser(call).await?;
        let body = self.body(call, content, &browser).await?;
        let authorization = self.authorizations.header(app, &settings.subject, origin, now).await;
        let message = Message {
            endpoint: &job.target,
            authorization: authorization.map_err(|error| unauthorized(&error))?,
            ttl: ttl(&options, &settings, job.expires_at, now),
            urgency: urgency(&options, &settings, call.lane),
            // Every attempt has the same topic, so a repetition replaces an undelivered first copy.
            topic: options.topic.unwrap_or_else(|| job.delivery_id.0.simple().to_string()),
            body,
        };
        let answer = answers::answer(&self.client.push(message, now).await, &job.target);
        Ok(self.doubts.settle(provider, origin, job.user, answer).await)
    }

    /// Loads the keys of the browser. The subscription must still exist and belong to the user; otherwise the delivery
    /// fails.
    async fn browser(&self, call: &Call<'_>) -> Result<BrowserKeys, Answer> {
        let name = SubscriptionName { app: call.app, user: call.job.user, endpoint: call.job.target.clone() };
        match self.browsers.call(name).await {
            Ok(Some(browser)) => Ok(browser),
            Ok(None) => {
                let message = "the subscription has expired, was removed, or is another user's now";
                Err(ours(Outcome::Failed, "unsubscribed", message))
            }
            Err(error) => Err(ours(Outcome::RETRY, "database", &error.to_string()).sparing_provider()),
        }
    }

    async fn body(
        &self,
        call: &Call<'_>,
        content: &PushContent,
        browser: &BrowserKeys,
    ) -> Result<Vec<u8>, Answer> {
        let click_url = match call.send_id {
            Some(send_id) => {
                let url = click::url(
                    &self.context.links,
                    self.context.public_url(),
                    call.app,
                    call.job.user,
                    send_id,
                )
                .await;
                url.map_err(|error| {
                    ours(Outcome::RETRY, "click_link", &error.to_string()).sparing_provider()
                })?
            }
            None => None,
        };
        let payload = Payload::new(content, call.job.delivery_id, call.send_id, click_url.as_deref());
        let plaintext = serde_json::to_vec(&payload)
            .map_err(|error| ours(Outcome::Failed, "content", &error.to_string()))?;
        if plaintext.len() > MAX_PLAINTEXT {
            let message = format!(
                "the message has {} bytes, and push services take {MAX_PLAINTEXT}: shorten it or its data",
                plaintext.len()
            );
            return Err(ours(Outcome::Failed, "too_large", &message));
        }
        encrypt(browser, &plaintext).map_err(|error| ours(Outcome::Failed, "encryption", &error.to_string()))
    }
}

impl ChannelSender for WebPushSender {
    const CHANNEL: Channel = Channel::WebPush;

    async fn send(&self, call: &Call<'_>) -> Answer {
        match self.attempt(call).await {
            Ok(answer) | Err(answer) => answer,
        }
    }

    fn serves(kind: &str, _target: &str) -> bool {
        kind == KIND
    }

    fn host(&self, target: &str) -> Option<String> {
        origin_of(target, &self.hosts).map(str::to_owned)
    }
}

/// Parses the settings of a provider. The error pauses a provider with another kind or with invalid settings.
pub(crate) fn settings(provider: &worker::Provider) -> Result<VapidSettings, Answer> {
    if provider.kind != KIND {
        let message = format!("no web push provider can be of kind {:?}, only {KIND:?}", provider.kind);
        return Err(ours(Outcome::PauseProvider, "settings", &message));
    }
    VapidSettings::parse(&provider.settings)
        .map_err(|problems| ours(Outcome::PauseProvider, "settings", &told(problems)))
}

/// Time limit of a call: two fifths of a lease, at most 30 s. It ends before the worker's own limit, so that this channel
/// decides the outcome.
fn call_limit(lease: Duration) -> Duration {
    (lease * 2 / 5).min(Duration::from_secs(30))
}

/// Seconds that the push service keeps the message: at most until the message expires.
fn ttl(
    options: &WebPushOptions,
    settings: &VapidSettings,
    expires_at: Option<Timestamp>,
    now: Timestamp,
) -> u32 {
    let left = expires_at.map(|at| u32::try_from(at.since(now).as_secs()).unwrap_or(MAX_TTL));
    match (options.ttl, left) {
        (Some(wanted), Some(left)) => wanted.min(left),
        (Some(wanted), None) => wanted,
        (None, Some(left)) => left.min(MAX_TTL),
        (None, None) => settings.ttl.unwrap_or(MAX_TTL),
    }
}

fn urgency(options: &WebPushOptions, settings: &VapidSettings, lane: Lane) -> Urgency {
    let by_lane = match lane {
        Lane::Transactional => Urgency::High,
        Lane::Bulk => Urgency::Normal,
    };
    options.urgency.or(settings.urgency).unwrap_or(by_lane)
}

pub(crate) fn unauthorized(error: &Unauthorized) -> Answer {
    let outcome = match error {
        Unauthorized::Key(_) => Outcome::RETRY,
        Unauthorized::NoKey | Unauthorized::Unsigned(_) | Unauthorized::NoHeader(_) => Outcome::PauseProvider,
    };
    ours(outcome, "vapid_key", &error.to_string())
}

fn told(problems: Vec<domain::Problem>) -> String {
    problems.into_iter().map(|problem| problem.message).collect::<Vec<_>>().join("; ")
}

/// Creates an answer without calling a push service.
pub(crate) fn ours(outcome: Outcome, code: &str, message: &str) -> Answer {
    Answer::new(outcome, code, message)
}
