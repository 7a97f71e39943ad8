use std::time::Duration;

use credentials::click;
use domain::content::PushContent;
use domain::event::DeliveryJob;
use domain::excerpt::{Cut, Fitted, fitting};
use domain::web_push::{MAX_PLAINTEXT, Payload, PushHost, origin_of, oversized};
use domain::{Answer, AppId, Outcome, Reason};
use service_kit::Context;
use store::database::batch::Batcher;
use store::directory::web_push::{BrowserKeys, SubscriptionName};
use worker::{Call, ChannelResources, Outbound};

use crate::authorization::Authorizations;
use crate::call::PushClient;
use crate::doubts::Doubts;
use crate::encryption::encrypt;

const BATCH: usize = 256;

pub struct PushServices {
    context: Context,
    pub(crate) hosts: Vec<PushHost>,
    pub(crate) client: PushClient,
    pub(crate) authorizations: Authorizations,
    browsers: Batcher<SubscriptionName, Option<BrowserKeys>>,
    pub(crate) doubts: Doubts,
}

pub struct Push<'a> {
    pub(crate) content: &'a PushContent,
    pub(crate) browser: BrowserKeys,
}

impl ChannelResources for PushServices {
    type Input<'a> = Push<'a>;
}

impl PushServices {
    /// Starts a task that looks up the keys of browsers until the process stops.
    pub(crate) fn new(context: &Context) -> anyhow::Result<PushServices> {
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
        Ok(PushServices {
            context: context.clone(),
            hosts: context.config.web_push.hosts.clone(),
            client: PushClient::new(outbound, call_limit(context.config.delivery.lease))?,
            authorizations: Authorizations::new(context),
            browsers,
            doubts: Doubts::new(),
        })
    }

    /// Fails the delivery if the push service must not be called.
    pub(crate) fn origin<'e>(&self, endpoint: &'e str) -> Result<&'e str, Answer> {
        origin_of(endpoint, &self.hosts).ok_or_else(|| {
            let message = "the push service of the subscription is not listed in web_push.hosts";
            Answer::refused(Reason::InvalidAddress, "endpoint_refused", message)
        })
    }

    /// Fails the delivery if the subscription no longer exists or no longer belongs to the user.
    pub(crate) async fn browser(&self, app: AppId, job: &DeliveryJob) -> Result<BrowserKeys, Answer> {
        let name = SubscriptionName { app, user: job.user, endpoint: job.target.clone() };
        match self.browsers.call(name).await {
            Ok(Some(browser)) => Ok(browser),
            Ok(None) => {
                // The more specific reason, if there is one.
                self.origin(&job.target)?;
                let message = "the subscription has expired, was removed, or belongs to another user now";
                Err(Answer::refused(Reason::NoAddress, "unsubscribed", message))
            }
            Err(error) => Err(Answer::new(Outcome::RETRY, "database", error.to_string()).sparing_provider()),
        }
    }

    /// Cuts the message's body if it is too large for push services.
    pub(crate) async fn body(
        &self,
        call: &Call<'_>,
        Push { content, browser }: &Push<'_>,
    ) -> Result<(Vec<u8>, Option<Cut>), Answer> {
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
                    Answer::new(Outcome::RETRY, "click_link", error.to_string()).sparing_provider()
                })?
            }
            None => None,
        };
        let payload = |body: &str| {
            let (delivery, url) = (call.job.delivery_id, click_url.as_deref());
            let body = (!body.is_empty()).then_some(body);
            serde_json::to_vec(&Payload::new(content, delivery, call.send_id, url, body))
        };
        let size = |body: &str| payload(body).map_or(0, |text| text.len());
        let whole = content.body.clone().unwrap_or_default();
        let Some(Fitted { text, cut }) = fitting(whole, MAX_PLAINTEXT, size) else {
            return Err(oversized(size("")));
        };
        let invalid = |code: &str, error: String| Answer::refused(Reason::InvalidContent, code, error);
        let plaintext = payload(&text).map_err(|error| invalid("content", error.to_string()))?;
        let encrypted =
            encrypt(browser, &plaintext).map_err(|error| invalid("encryption", error.to_string()))?;
        Ok((encrypted, cut))
    }
}

/// Less than the worker's own limit, so the channel times out first and decides the outcome.
fn call_limit(lease: Duration) -> Duration {
    (lease * 2 / 5).min(Duration::from_secs(30))
}
