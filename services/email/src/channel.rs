use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use domain::content::{Attachment, Content};
use domain::event::DeliveryJob;
use domain::{Answer, AppId, Channel, Outcome, Reason};
use tokio::time::timeout;
use worker::{Attempt, Call, ChannelSender, OpenProviders, Outbound, Probe, Provider};

use crate::connections::Connections;
use crate::kinds::KINDS;
use crate::large_emails::LargeEmails;
use crate::letter::Enclosures;
use crate::smtp::limits::PoolLimits;
use crate::sources::Sources;

/// Sender of emails. Clones share their connections.
#[derive(Clone)]
pub struct EmailSender {
    sources: Arc<Sources>,
    connections: Arc<Connections>,
    providers: OpenProviders<Connections>,
    /// Time limit for loading attachments and the unsubscribe link. If the email is large, the limit includes the wait for
    /// other large emails.
    preparing: Duration,
    large: LargeEmails,
}

impl EmailSender {
    pub fn new(limits: PoolLimits, outbound: Outbound, sources: Sources) -> reqwest::Result<Self> {
        Ok(EmailSender {
            sources: Arc::new(sources),
            preparing: limits.preparing,
            connections: Arc::new(Connections::new(limits, outbound)?),
            providers: OpenProviders::new(KINDS),
            large: LargeEmails::default(),
        })
    }

    pub async fn attempt(&self, call: &Call<'_>) -> Answer {
        let Content::Email(content) = &call.job.content else {
            return Answer::refused(Reason::InvalidContent, "content", "the job carries no email");
        };
        match timeout(self.preparing, self.prepare(call, &content.options.attachments)).await {
            Ok(Ok(message)) => {
                self.providers.send(Attempt { resources: &*self.connections, call, input: message }).await
            }
            Ok(Err(answer)) => answer,
            Err(_) => Answer::new(Outcome::RETRY, "busy", "loading attachments timed out").sparing_provider(),
        }
    }

    /// Loads attachments and the unsubscribe link. A large email first waits for room, which it keeps until its content is sent: an
    /// SMTP server that takes long to answer must not delay the large emails to others. For Postmark, it keeps the room until the answer.
    async fn prepare(&self, call: &Call<'_>, files: &[Attachment]) -> Result<Enclosures, Answer> {
        let size = files.iter().map(|file| file.size).fold(0, u64::saturating_add);
        let room = match call.send_id {
            Some(send) => self.large.enter(call.app, send, size).await,
            None => None,
        };
        Ok(Enclosures { room, ..self.sources.load_enclosures(call, files).await? })
    }

    pub async fn reap(&self) -> Infallible {
        self.connections.pools.reap().await
    }
}

impl ChannelSender for EmailSender {
    const CHANNEL: Channel = Channel::Email;

    type Prepared = ();

    async fn prepare(&self, _app: AppId, _job: &DeliveryJob) -> Result<(), Answer> {
        Ok(())
    }

    async fn probe(&self, probe: &Probe<'_>) -> Result<String, Answer> {
        self.providers.probe(probe).await
    }

    async fn send(&self, call: &Call<'_>, _prepared: ()) -> Answer {
        self.attempt(call).await
    }

    fn longest_call(&self, provider: &Provider) -> Option<Duration> {
        self.providers.longest_call(&provider.kind)
    }
}
