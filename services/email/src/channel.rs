//! The email channel: turns a job into an email and returns the provider's answer.

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

use crate::letter::{Enclosures, Letter};
use crate::letter_error::LetterError;
use crate::message::OutgoingMail;
use crate::postmark::settings::PostmarkSettings;
use crate::postmark::{self, Postmark};
use crate::smtp::answers::{self, is_alarming};
use crate::smtp::settings::SmtpSettings;
use crate::smtp::{self, Pool, PoolLimits, Pools, ProviderVersion};
use crate::sources::Sources;

/// Total size of attachments, in bytes, from which an email counts as large.
const LARGE: u64 = 256 << 10;
/// Maximum number of large emails in memory at the same time.
const LARGE_AT_ONCE: usize = 4;
/// Lease from which the time limits of a probe are derived.
const PROBE_LEASE: Duration = Duration::from_secs(90);

/// Sender of emails. Clones share their connections.
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
    /// Creates a sender with these limits for each provider.
    ///
    /// # Errors
    /// TLS cannot be set up.
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
            return local_answer(Outcome::Failed, "content", "the job carries no email");
        };
        let preparing =
            timeout(self.limits.preparing, self.prepare(call, &content.options.attachments)).await;
        match preparing {
            Ok(Ok((enclosed, _room))) => self.send_with(call, enclosed).await,
            Ok(Err(answer)) => answer,
            Err(_) => local_answer(Outcome::RETRY, "busy", "loading attachments timed out"),
        }
    }

    /// Loads the enclosures, with a permit for large emails that is held until the email is sent.
    async fn prepare(
        &self,
        call: &Call<'_>,
        files: &[Attachment],
    ) -> Result<(Enclosures, Option<OwnedSemaphorePermit>), Answer> {
        let size = files.iter().map(|file| file.size).fold(0, u64::saturating_add);
        let room = if size < LARGE {
            None
        } else {
            // The semaphore is never closed.
            Arc::clone(&self.large).acquire_owned().await.ok()
        };
        Ok((self.sources.enclosed(call, files).await?, room))
    }

    async fn send_with(&self, call: &Call<'_>, enclosed: Enclosures) -> Answer {
        let sent = match call.provider.kind.as_str() {
            smtp::settings::KIND => self.over_smtp(call, enclosed).await,
            postmark::settings::KIND => self.over_http(call, enclosed).await,
            kind => {
                let message = format!("{kind:?} is not a kind of email provider");
                return local_answer(Outcome::PauseProvider, "settings", &message);
            }
        };
        sent.unwrap_or_else(|unsendable| {
            local_answer(Outcome::Failed, unsendable.code(), &unsendable.to_string())
        })
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
        // The subject is hidden too: it may contain a one-time code.
        hidden.push(letter.subject);
        let answer = answers::answer(&result, &hidden);
        if is_alarming(&result) {
            counter!(PROVIDER_ALERTS, "channel" => Channel::Email.as_str()).increment(1);
            let code = &answer.code;
            let provider = &provider.identifier;
            tracing::error!(app = %call.app, provider, code, "the server rejects emails of this sender");
        }
        Ok(answer)
    }

    async fn over_http(&self, call: &Call<'_>, enclosed: Enclosures) -> Result<Answer, LetterError> {
        let settings = match PostmarkSettings::parse(&call.provider.settings) {
            Ok(settings) => settings,
            Err(problems) => return Ok(local_answer(Outcome::PauseProvider, "settings", &joined(problems))),
        };
        let letter = letter(call, &settings.identity, enclosed)?;
        self.postmark.send(&settings, &letter, call).await
    }

    /// Closes idle connections until the returned future is dropped.
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

/// Checks a provider's credentials without sending an email. Returns one sentence that describes the successful check.
///
/// # Errors
/// The answer that an attempt would get.
pub async fn probe(outbound: Outbound, provider: &Provider) -> Result<String, Answer> {
    let client = outbound.client().build();
    let client = client.map_err(|error| local_answer(Outcome::RETRY, "tls", &error.to_string()))?;
    let limits = PoolLimits::for_lease(PROBE_LEASE);
    match provider.kind.as_str() {
        smtp::settings::KIND => {
            let pool = pool(provider, limits, outbound, &client)?;
            smtp::probe(&pool).await.map_err(|failure| answers::answer(&Err(failure), &[]))
        }
        postmark::settings::KIND => {
            let settings = PostmarkSettings::parse(&provider.settings)
                .map_err(|problems| local_answer(Outcome::PauseProvider, "settings", &joined(problems)))?;
            let postmark = Postmark::new(client, outbound, limits.content);
            postmark.probe(&settings, service_kit::clock::now()).await
        }
        kind => Err(local_answer(
            Outcome::PauseProvider,
            "settings",
            &format!("{kind:?} is not a kind of email provider"),
        )),
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

/// Overrides of the send for this provider.
fn overrides<'a>(call: &Call<'a>) -> Option<&'a Object> {
    call.job.overrides.get(&call.provider.identifier)
}

fn pool(
    provider: &Provider,
    limits: PoolLimits,
    outbound: Outbound,
    client: &Client,
) -> Result<Pool, Answer> {
    let unusable = |problem: String| local_answer(Outcome::PauseProvider, "settings", &problem);
    let settings = SmtpSettings::parse(&provider.settings).map_err(joined).map_err(unusable)?;
    if settings.exposes_login() && !outbound.allows_private() {
        let message = "a login needs security starttls or tls, unless private addresses are allowed \
                       (outbound.allow_private)";
        return Err(local_answer(Outcome::PauseProvider, "insecure_login", message));
    }
    Pool::new(settings, limits, outbound, client).map_err(|error| unusable(error.to_string()))
}

fn joined(problems: Vec<domain::Problem>) -> String {
    problems.into_iter().map(|problem| problem.message).collect::<Vec<_>>().join("; ")
}

/// Creates an answer without calling a server.
fn local_answer(outcome: Outcome, code: &str, message: &str) -> Answer {
    Answer::new(outcome, code, message)
}
