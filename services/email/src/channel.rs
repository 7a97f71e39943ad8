//! The email channel: a job to an email to a provider's answer.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use domain::content::{Attachment, Content, Object};
use domain::{Answer, Channel, Outcome};
use metrics::counter;
use reqwest::Client;
use service_kit::metrics::PROVIDER_ALERTS;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use worker::{Call, ChannelSender, Outbound, Provider};

use crate::letter::{Enclosures, Letter, LetterError};
use crate::message::OutgoingMail;
use crate::postmark::settings::PostmarkSettings;
use crate::postmark::{self, Postmark};
use crate::smtp::answers::{self, is_alarming};
use crate::smtp::settings::SmtpSettings;
use crate::smtp::{self, Pool, PoolLimits, Pools, ProviderVersion};
use crate::sources::Sources;

/// From this size on an email counts as large.
const LARGE: u64 = 256 << 10;
/// Large emails that are held in memory at once.
const LARGE_AT_ONCE: usize = 4;
/// Bounds of a probe are those of an attempt under this lease.
const PROBE_LEASE: Duration = Duration::from_secs(90);

/// Sends emails. Clones share their connections.
#[derive(Clone)]
pub struct EmailSender {
    sources: Arc<Sources>,
    pools: Arc<Pools>,
    postmark: Postmark,
    client: Client,
    outbound: Outbound,
    limits: PoolLimits,
    large: Arc<Semaphore>,
}

impl EmailSender {
    /// A sender with these bounds for each provider.
    ///
    /// # Errors
    /// TLS cannot be set up on this machine.
    pub fn new(limits: PoolLimits, outbound: Outbound, sources: Sources) -> reqwest::Result<Self> {
        let client = outbound.client().build()?;
        Ok(EmailSender {
            sources: Arc::new(sources),
            pools: Arc::new(Pools::new(limits.clone())),
            postmark: Postmark::new(client.clone(), outbound, limits.content),
            client,
            outbound,
            limits,
            large: Arc::new(Semaphore::new(LARGE_AT_ONCE)),
        })
    }

    /// Makes one attempt.
    pub async fn attempt(&self, call: &Call<'_>) -> Answer {
        let Content::Email(content) = &call.job.content else {
            return ours(Outcome::Failed, "content", "the job carries no email");
        };
        let preparing =
            timeout(self.limits.preparing, self.prepare(call, &content.options.attachments)).await;
        match preparing {
            Ok(Ok((enclosed, _room))) => self.send_with(call, enclosed).await,
            Ok(Err(answer)) => answer,
            Err(_) => ours(Outcome::RETRY, "busy", "the attachments were not to be had in time"),
        }
    }

    /// What goes along with the content, and room in memory for it while it is needed.
    async fn prepare(
        &self,
        call: &Call<'_>,
        files: &[Attachment],
    ) -> Result<(Enclosures, Option<OwnedSemaphorePermit>), Answer> {
        let size = files.iter().map(|file| file.size).fold(0, u64::saturating_add);
        let room = match size < LARGE {
            true => None,
            // Never closed.
            false => Arc::clone(&self.large).acquire_owned().await.ok(),
        };
        Ok((self.sources.enclosed(call, files).await?, room))
    }

    async fn send_with(&self, call: &Call<'_>, enclosed: Enclosures) -> Answer {
        let sent = match call.provider.kind.as_str() {
            smtp::settings::KIND => self.over_smtp(call, enclosed).await,
            postmark::settings::KIND => self.over_http(call, enclosed).await,
            kind => {
                let message = format!("no email provider can be of kind {kind:?}");
                return ours(Outcome::PauseProvider, "settings", &message);
            }
        };
        sent.unwrap_or_else(|unsendable| ours(Outcome::Failed, unsendable.code(), &unsendable.to_string()))
    }

    async fn over_smtp(&self, call: &Call<'_>, enclosed: Enclosures) -> Result<Answer, LetterError> {
        let provider = call.provider;
        let version = ProviderVersion {
            app: provider.app,
            identifier: provider.identifier.clone(),
            version: provider.version,
        };
        let pool = match self.pools.get(version, |limits| pool(provider, limits, self.outbound, &self.client))
        {
            Ok(pool) => pool,
            Err(unusable) => return Ok(unusable),
        };
        let settings = pool.settings();
        let letter = letter(call, &settings.identity, enclosed)?;
        let mail = OutgoingMail::build(&letter, settings.signer.as_deref())?;
        let result = pool.send(&mail).await;
        let others: Vec<String> = mail.others.iter().map(ToString::to_string).collect();
        let mut hidden = vec![call.job.target.as_str(), mail.to.as_ref()];
        hidden.extend(others.iter().map(String::as_str));
        // A subject may be a one-time code.
        hidden.push(letter.subject);
        let answer = answers::answer(&result, &hidden);
        if is_alarming(&result) {
            counter!(PROVIDER_ALERTS, "channel" => Channel::Email.as_str()).increment(1);
            let (code, provider) = (&answer.code, &provider.identifier);
            tracing::error!(app = %call.app, provider, code, "the server refuses emails of this sender");
        }
        Ok(answer)
    }

    async fn over_http(&self, call: &Call<'_>, enclosed: Enclosures) -> Result<Answer, LetterError> {
        let settings = match PostmarkSettings::parse(&call.provider.settings) {
            Ok(settings) => settings,
            Err(problems) => return Ok(ours(Outcome::PauseProvider, "settings", &told(problems))),
        };
        let letter = letter(call, &settings.identity, enclosed)?;
        self.postmark.send(&settings, &letter, call).await
    }

    /// Closes connections that nobody uses, for as long as it is polled.
    pub async fn reap(&self) -> Infallible {
        self.pools.reap().await
    }
}

impl ChannelSender for EmailSender {
    const CHANNEL: Channel = Channel::Email;

    async fn send(&self, call: &Call<'_>) -> Answer {
        self.attempt(call).await
    }
}

/// Proves a provider's credentials without sending anything, and says what it proved.
///
/// # Errors
/// What stands in the way, as an attempt would be answered.
pub async fn probe(outbound: Outbound, provider: &Provider) -> Result<String, Answer> {
    let client = outbound.client().build();
    let client = client.map_err(|error| ours(Outcome::RETRY, "tls", &error.to_string()))?;
    let limits = PoolLimits::for_lease(PROBE_LEASE);
    match provider.kind.as_str() {
        smtp::settings::KIND => {
            let pool = pool(provider, limits, outbound, &client)?;
            smtp::probe(&pool).await.map_err(|failure| answers::answer(&Err(failure), &[]))
        }
        postmark::settings::KIND => {
            let settings = PostmarkSettings::parse(&provider.settings)
                .map_err(|problems| ours(Outcome::PauseProvider, "settings", &told(problems)))?;
            let postmark = Postmark::new(client, outbound, limits.content);
            postmark.probe(&settings, service_kit::clock::now()).await
        }
        kind => {
            Err(ours(Outcome::PauseProvider, "settings", &format!("{kind:?} is no kind of email provider")))
        }
    }
}

fn letter<'a>(
    call: &Call<'a>,
    sender: &crate::identity::Identity,
    enclosed: Enclosures,
) -> Result<Letter<'a>, LetterError> {
    let Content::Email(content) = &call.job.content else { return Err(LetterError::Empty) };
    Letter::compose(call.job, content, sender, overrides(call), enclosed, call.now)
}

/// What the send says of this provider.
fn overrides<'a>(call: &Call<'a>) -> Option<&'a Object> {
    call.job.overrides.get(&call.provider.identifier)
}

fn pool(
    provider: &Provider,
    limits: PoolLimits,
    outbound: Outbound,
    client: &Client,
) -> Result<Pool, Answer> {
    let unusable = |problem: String| ours(Outcome::PauseProvider, "settings", &problem);
    let settings = SmtpSettings::parse(&provider.settings).map_err(told).map_err(unusable)?;
    if settings.tells_a_secret_in_the_clear() && !outbound.allows_private() {
        let message = "a login needs security starttls or tls, unless private addresses are allowed \
                       (outbound.allow_private)";
        return Err(ours(Outcome::PauseProvider, "insecure_login", message));
    }
    Pool::new(settings, limits, outbound, client).map_err(|error| unusable(error.to_string()))
}

fn told(problems: Vec<domain::Problem>) -> String {
    problems.into_iter().map(|problem| problem.message).collect::<Vec<_>>().join("; ")
}

/// An answer for which no server was asked.
fn ours(outcome: Outcome, code: &str, message: &str) -> Answer {
    Answer::new(outcome, code, message)
}
