//! The SMS channel: a job to a provider's call to an answer.

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

use crate::answers::{ours, unusable};
use crate::http::settings::HttpSettings;
use crate::limits::Limits;
use crate::recorder::{Post, Receipt, channel};
use crate::settings::is_sender;
use crate::smpp::settings::SmppSettings;
use crate::smpp::{self, Sessions};
use crate::twilio::settings::TwilioSettings;
use crate::{http, twilio};

/// TLS cannot be set up on this machine.
pub type StartError = reqwest::Error;

/// Sends short messages. Clones share their connections and sessions.
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
    /// A sender, and the receipts that come over its SMPP sessions, which are tasks. Status callbacks are asked for
    /// where `public_url` says how the gateway is reached.
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
            return ours(Outcome::Failed, "content", "the job carries no short message");
        };
        let content = &SmsContent { from: sender(call, content), text: content.text.clone() };
        if let Err(refused) = check(&call.job.target, content) {
            return refused;
        }
        if call.job.route.keyed && !http::keeps_apart(call.provider) {
            let says = "the provider may have taken it, and does not keep calls apart any more: it was not called again";
            return ours(Outcome::Unknown, "provider_changed", says);
        }
        match call.provider.kind.as_str() {
            "twilio" => self.by_twilio(call, content).await,
            "http" => self.by_http(call, content).await,
            "smpp" => self.by_smpp(call, content).await,
            kind => ours(Outcome::PauseProvider, "kind", format!("no SMS provider can be of kind {kind:?}")),
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

    /// Binds a session of an SMPP provider, or keeps the one that is bound, so that its receipts come.
    ///
    /// # Errors
    /// Errors in its settings.
    pub fn listen(&self, provider: &Provider) -> Result<(), Answer> {
        let Shared { sessions, receipts, .. } = &*self.shared;
        let settings = SmppSettings::parse(&provider.settings).map_err(|problems| unusable(&problems))?;
        if settings.receipts {
            sessions.of(provider, settings, Post::new(provider, receipts.clone())).keep();
        }
        Ok(())
    }

    /// Ends unused SMPP sessions, for as long as it is polled.
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

/// Client for HTTP calls.
pub(crate) fn caller(outbound: Outbound, limits: Limits) -> Result<Caller, StartError> {
    Ok(Caller::new(outbound.client().build()?, outbound, limits.call))
}

/// The sender that the send asks for: of this provider, or of all.
fn sender(call: &Call<'_>, content: &SmsContent) -> Option<String> {
    let config = call.job.overrides.get(&call.provider.identifier).and_then(|members| members.get("_config"));
    let from = config.and_then(|config| config.get("from")).and_then(Value::as_str);
    from.map(str::to_owned).or_else(|| content.from.clone())
}

/// Refuses messages that no provider could send. A malformed number is dead for every provider and cannot belong to a person, so
/// its suppression does no harm.
fn check(number: &str, content: &SmsContent) -> Result<(), Answer> {
    if !is_e164(number) {
        return Err(ours(Outcome::GONE, "invalid_number", "the number is not written as E.164 says"));
    }
    if content.text.trim().is_empty() {
        return Err(ours(Outcome::Failed, "empty", "the message has no text"));
    }
    match &content.from {
        Some(from) if !is_sender(from) => {
            let says = "the sender is no number, short code, or name of up to 11 letters and digits";
            Err(ours(Outcome::Failed, "invalid_sender", says))
        }
        _ => Ok(()),
    }
}

/// With the segments that the message takes, where it was taken or may have been.
fn counted(answer: Answer, segments: &Segmented<'_>) -> Answer {
    match answer.outcome {
        Outcome::Sent { .. } | Outcome::Unknown | Outcome::Repeat { .. } => {
            Answer { segments: Some(segments.count()), ..answer }
        }
        _ => answer,
    }
}
