use domain::content::Content;
use domain::event::DeliveryJob;
use domain::{Answer, AppId, Channel, Reason};
use service_kit::Context;
use store::directory::web_push::BrowserKeys;
use worker::{Attempt, Call, ChannelSender, OpenProviders, Probe, ProviderKind as _};

use crate::kinds::KINDS;
use crate::push_services::{Push, PushServices};
use crate::vapid::Vapid;

pub struct WebPushSender {
    services: PushServices,
    providers: OpenProviders<PushServices>,
}

impl WebPushSender {
    /// Starts a task that looks up subscriptions until the process stops.
    pub fn new(context: &Context) -> anyhow::Result<WebPushSender> {
        Ok(WebPushSender { services: PushServices::new(context)?, providers: OpenProviders::new(KINDS) })
    }
}

impl ChannelSender for WebPushSender {
    const CHANNEL: Channel = Channel::WebPush;

    type Prepared = BrowserKeys;

    async fn prepare(&self, app: AppId, job: &DeliveryJob) -> Result<BrowserKeys, Answer> {
        self.services.browser(app, job).await
    }

    async fn probe(&self, probe: &Probe<'_>) -> Result<String, Answer> {
        self.providers.probe(probe).await
    }

    async fn send(&self, call: &Call<'_>, browser: BrowserKeys) -> Answer {
        let Content::Push(content) = &call.job.content else {
            return Answer::refused(Reason::InvalidContent, "content", "the job carries no push message");
        };
        let input = Push { content, browser };
        self.providers.send(Attempt { resources: &self.services, call, input }).await
    }

    fn serves(kind: &str, _target: &str) -> bool {
        kind == Vapid::NAME
    }

    fn host(&self, target: &str) -> Option<String> {
        self.services.origin(target).ok().map(str::to_owned)
    }
}
