use std::time::Duration;

use domain::content::Content;
use domain::event::DeliveryJob;
use domain::{Answer, AppId, Channel, Reason};
use worker::{Attempt, Call, ChannelSender, OpenProviders, Outbound, Probe};

use crate::calls::{Calls, Push};
use crate::kinds::KINDS;

/// Clones share connections and credentials.
#[derive(Clone)]
pub struct MobilePushSender {
    calls: Calls,
    providers: OpenProviders<Calls>,
}

impl MobilePushSender {
    /// Creates a sender that calls only hosts that `outbound` allows, and ends an attempt after `limit`.
    #[must_use]
    pub fn new(outbound: Outbound, limit: Duration) -> MobilePushSender {
        MobilePushSender { calls: Calls { outbound, limit }, providers: OpenProviders::new(KINDS) }
    }
}

impl ChannelSender for MobilePushSender {
    const CHANNEL: Channel = Channel::MobilePush;

    type Prepared = ();

    async fn prepare(&self, _app: AppId, _job: &DeliveryJob) -> Result<(), Answer> {
        Ok(())
    }

    async fn probe(&self, probe: &Probe<'_>) -> Result<String, Answer> {
        self.providers.probe(probe).await
    }

    async fn send(&self, call: &Call<'_>, _prepared: ()) -> Answer {
        let Content::Push(content) = &call.job.content else {
            return Answer::refused(Reason::InvalidContent, "content", "the job carries no push message");
        };
        let message = Push::new(content, &call.job.target);
        self.providers.send(Attempt { resources: &self.calls, call, input: message }).await
    }

    fn serves(kind: &str, target: &str) -> bool {
        target.split_once(':').is_some_and(|(service, _)| service == kind)
    }
}
