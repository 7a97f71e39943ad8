//! The email channel: a job to an SMTP exchange to an answer.

use std::convert::Infallible;
use std::sync::Arc;

use domain::content::Content;
use domain::event::DeliveryJob;
use domain::{Answer, Channel, Outcome, Timestamp};
use service_kit::clock;
use worker::{Provider, Sender};

use crate::answers;
use crate::message::OutgoingMail;
use crate::pool::{Pool, PoolLimits};
use crate::pools::{Pools, ProviderVersion};
use crate::settings::{self, SmtpSettings};

/// Sends emails over SMTP. Clones share their connections.
#[derive(Clone)]
pub struct SmtpSender {
    pools: Arc<Pools>,
}

impl SmtpSender {
    /// A sender with these bounds for each provider.
    #[must_use]
    pub fn new(limits: PoolLimits) -> Self {
        SmtpSender { pools: Arc::new(Pools::new(limits)) }
    }

    /// Makes one attempt at `now`.
    pub async fn attempt(&self, provider: &Provider, job: &DeliveryJob, now: Timestamp) -> Answer {
        let Content::Email(content) = &job.content else {
            return ours(Outcome::Failed, "content", "the job carries no email");
        };
        let version = ProviderVersion {
            app: provider.app,
            identifier: provider.identifier.clone(),
            version: provider.version,
        };
        let pool = match self.pools.get(version, |limits| pool(provider, limits)) {
            Ok(pool) => pool,
            Err(problem) => return ours(Outcome::PauseProvider, "settings", &problem),
        };
        match OutgoingMail::build(pool.settings(), &job.target, job.delivery_id, content, now) {
            Ok(mail) => answers::answer(&pool.send(&mail).await, &job.target),
            Err(unsendable) => ours(Outcome::Failed, unsendable.code(), &unsendable.to_string()),
        }
    }

    /// Closes connections that nobody uses, for as long as it is polled.
    pub async fn reap(&self) -> Infallible {
        self.pools.reap().await
    }
}

impl Sender for SmtpSender {
    const CHANNEL: Channel = Channel::Email;

    async fn send(&self, provider: &Provider, job: &DeliveryJob) -> Answer {
        self.attempt(provider, job, clock::now()).await
    }
}

fn pool(provider: &Provider, limits: PoolLimits) -> Result<Pool, String> {
    if provider.kind != settings::KIND {
        return Err(format!(
            "no email provider can be of kind {:?}, only {:?}",
            provider.kind,
            settings::KIND
        ));
    }
    let settings = SmtpSettings::parse(&provider.settings).map_err(|problems| {
        problems.into_iter().map(|problem| problem.message).collect::<Vec<_>>().join("; ")
    })?;
    Pool::new(settings, limits).map_err(|error| error.to_string())
}

/// An answer for which no server was asked.
fn ours(outcome: Outcome, code: &str, message: &str) -> Answer {
    Answer { outcome, code: code.to_owned(), message: message.to_owned() }
}
