//! The email channel: a job to an SMTP exchange to an answer.

use std::convert::Infallible;
use std::sync::Arc;

use domain::content::Content;
use domain::event::DeliveryJob;
use domain::{Answer, Outcome, Timestamp};
use serde_json::Value;

use crate::answers;
use crate::message::OutgoingMail;
use crate::pool::{Pool, PoolLimits};
use crate::pools::{Pools, ProviderVersion};
use crate::settings::SmtpSettings;

/// Sends emails over SMTP. Clones share their connections.
#[derive(Clone)]
pub struct SmtpSender {
    pools: Arc<Pools>,
}

impl SmtpSender {
    /// A sender with these bounds for each provider.
    #[must_use]
    pub fn new(limits: PoolLimits) -> Self {
        SmtpSender {
            pools: Arc::new(Pools::new(limits)),
        }
    }

    /// Makes one attempt at `now`, with the provider's settings, secrets filled in.
    pub async fn attempt(
        &self,
        provider: &ProviderVersion,
        settings: &Value,
        job: &DeliveryJob,
        now: Timestamp,
    ) -> Answer {
        let Content::Email(content) = &job.content else {
            return ours(Outcome::Failed, "content", "the job carries no email");
        };
        let pool = match self.pools.get(provider, |limits| pool(settings, limits)) {
            Ok(pool) => pool,
            Err(problem) => return ours(Outcome::PauseProvider, "settings", &problem),
        };
        match OutgoingMail::build(pool.settings(), &job.target, job.delivery_id, content, now) {
            Ok(mail) => answers::answer(&pool.send(&mail).await, &job.target),
            Err(unsendable) => ours(Outcome::Failed, "content", &unsendable.to_string()),
        }
    }

    /// Closes connections that nobody uses, for as long as it is polled.
    pub async fn reap(&self) -> Infallible {
        self.pools.reap().await
    }
}

fn pool(settings: &Value, limits: PoolLimits) -> Result<Pool, String> {
    let settings = SmtpSettings::parse(settings).map_err(|problems| {
        problems
            .into_iter()
            .map(|problem| problem.message)
            .collect::<Vec<_>>()
            .join("; ")
    })?;
    Pool::new(settings, limits).map_err(|error| error.to_string())
}

/// An answer for which no server was asked.
fn ours(outcome: Outcome, code: &str, message: &str) -> Answer {
    Answer {
        outcome,
        code: code.to_owned(),
        message: message.to_owned(),
    }
}
