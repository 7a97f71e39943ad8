//! The SMS channel: turns a job into a provider call and returns its answer.

use std::convert::Infallible;
use std::sync::Arc;

use domain::content::{Content, SmsContent};
use domain::sms::number::is_e164;
use domain::sms::segment::Segmented;
use domain::{Answer, Channel, Outcome};
use serde_json::Value;
use service_kit::Tasks;
use tokio::sync::mpsc;
use worker::exchange::Caller;
use worker::{Call, ChannelSender, Outbound, Provider};

use crate::answers::{local_answer, unusable};
use crate::http::settings::HttpSettings;
use crate::limits::Limits;
use crate::recorder::{Post, Receipt, channel};
use crate::settings::is_sender;
use crate::smpp::settings::SmppSettings;
use crate::smpp::{self, Sessions};
use crate::twilio::settings::TwilioSettings;
use crate::{http, twilio};

/// Error of [`SmsSender::start`]: TLS cannot be set up.
pub type StartError = reqwest::Error;

/// Sender of SMS. Clones share their connections and sessions.
#[derive(Clone)]
pub struct SmsSender {
    shared: Arc<Shared>,
}

struct Shared {
    caller: Caller,
    public_url: Option<String>,
    limits: Limits,
    sessions: Sessions,
    receipts: mpsc::Sender<Receipt>,
}

impl SmsSender {
    /// Creates a sender, and the receiver of receipts from its SMPP sessions, which run as tasks. Status callbacks are
    /// requested if `public_url`, the public address of the gateway, is set.
    ///
    /// # Errors
    /// TLS cannot be set up.
    pub fn start(
        outbound: Outbound,
        public_url: Option<String>,
        limits: Limits,
        tasks: Tasks,
    ) -> Result<(SmsSender, mpsc::Receiver<Receipt>), StartError> {
        let caller = caller(outbound, limits)?;
        let (receipts, received) = channel();
        let sessions = Sessions::new(outbound, limits, tasks);
        let shared = Arc::new(Shared { caller, public_url, limits, sessions, receipts });
        Ok((SmsSender { shared }, received))
    }

    /// Makes one attempt.
    pub async fn attempt(&self, call: &Call<'_>) -> Answer {
        let Content::Sms(content) = &call.job.content else {
            return local_answer(Outcome::Failed, "content", "the job carries no SMS");
        };
        let content = &SmsContent { from: sender(call, content), text: content.text.clone() };
        if let Err(refused) = check(&call.job.target, content) {
            return refused;
        }
        if call.job.route.keyed && !http::is_idempotent(call.provider) {
            let says = "the provider may have accepted the message and is no longer idempotent: it was not called again";
            return local_answer(Outcome::Unknown, "provider_changed", says);
        }
        match call.provider.kind.as_str() {
            "twilio" => self.by_twilio(call, content).await,
            "http" => self.by_http(call, content).await,
            "smpp" => self.by_smpp(call, content).await,
            kind => local_answer(
                Outcome::PauseProvider,
                "kind",
                format!("{kind:?} is not a kind of SMS provider"),
            ),
        }
    }

    async fn by_twilio(&self, call: &Call<'_>, content: &SmsContent) -> Answer {
        let Shared { caller, public_url, .. } = &*self.shared;
        match TwilioSettings::parse(&call.provider.settings) {
            Ok(settings) => {
                let answer = twilio::send(caller, public_url.as_deref(), call, content, &settings).await;
                counted(answer, &Segmented::of(&content.text))
            }
            Err(problems) => unusable(&problems),
        }
    }

    async fn by_http(&self, call: &Call<'_>, content: &SmsContent) -> Answer {
        match HttpSettings::parse(&call.provider.settings) {
            Ok(settings) => {
                let answer = http::send(&self.shared.caller, call, content, &settings).await;
                counted(answer, &Segmented::of(&content.text))
            }
            Err(problems) => unusable(&problems),
        }
    }

    async fn by_smpp(&self, call: &Call<'_>, content: &SmsContent) -> Answer {
        let Shared { limits, sessions, receipts, .. } = &*self.shared;
        let settings = match SmppSettings::parse(&call.provider.settings) {
            Ok(settings) => settings,
            Err(problems) => return unusable(&problems),
        };
        let session = sessions.of(call.provider, settings, Post::new(call.provider, receipts.clone()));
        let segments = smpp::segmented(session.settings(), &content.text);
        counted(smpp::send(&session, *limits, call, content, &segments).await, &segments)
    }

    /// Binds the session of an SMPP provider, or keeps it bound, so that its receipts arrive. Does nothing if the settings
    /// request no receipts.
    ///
    /// # Errors
    /// The provider's settings are invalid.
    pub fn listen(&self, provider: &Provider) -> Result<(), Answer> {
        let Shared { sessions, receipts, .. } = &*self.shared;
        let settings = SmppSettings::parse(&provider.settings).map_err(|problems| unusable(&problems))?;
        if settings.receipts {
            sessions.of(provider, settings, Post::new(provider, receipts.clone())).keep();
        }
        Ok(())
    }

    /// Ends idle SMPP sessions until the returned future is dropped.
    pub async fn reap(&self) -> Infallible {
        self.shared.sessions.reap().await
    }
}

impl ChannelSender for SmsSender {
    const CHANNEL: Channel = Channel::Sms;
    const RECEIPTS: bool = true;

    async fn send(&self, call: &Call<'_>) -> Answer {
        self.attempt(call).await
    }
}

/// Creates the client for HTTP calls.
pub(crate) fn caller(outbound: Outbound, limits: Limits) -> Result<Caller, StartError> {
    Ok(Caller::new(outbound.client().build()?, outbound, limits.call))
}

/// Sender that the send sets for this provider (`_config.from` in its overrides), else for all providers. None if it sets
/// neither.
fn sender(call: &Call<'_>, content: &SmsContent) -> Option<String> {
    let config = call.job.overrides.get(&call.provider.identifier).and_then(|members| members.get("_config"));
    let from = config.and_then(|config| config.get("from")).and_then(Value::as_str);
    from.map(str::to_owned).or_else(|| content.from.clone())
}

/// Rejects messages that no provider could send. A malformed number is `GONE`, which suppresses it. This is safe because the
/// number cannot belong to a person.
fn check(number: &str, content: &SmsContent) -> Result<(), Answer> {
    if !is_e164(number) {
        return Err(local_answer(Outcome::GONE, "invalid_number", "the number is not in E.164 format"));
    }
    if content.text.trim().is_empty() {
        return Err(local_answer(Outcome::Failed, "empty", "the message has no text"));
    }
    match &content.from {
        Some(from) if !is_sender(from) => {
            let says = "the sender is not a number, a short code, or a name of up to 11 letters and digits";
            Err(local_answer(Outcome::Failed, "invalid_sender", says))
        }
        _ => Ok(()),
    }
}

/// Adds the number of segments to the answer if the message was accepted or may have been accepted.
fn counted(answer: Answer, segments: &Segmented<'_>) -> Answer {
    match answer.outcome {
        Outcome::Sent { .. } | Outcome::Unknown | Outcome::Repeat { .. } => {
            Answer { segments: Some(segments.count()), ..answer }
        }
        _ => answer,
    }
}
