use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use domain::content::{Content, SmsContent};
use domain::event::DeliveryJob;
use domain::sms::number::is_e164;
use domain::sms::sender::{SENDER, is_sender};
use domain::{Answer, AppId, Channel, Reason};
use serde_json::Value;
use service_kit::Tasks;
use tokio::sync::mpsc;
use worker::exchange::Caller;
use worker::{Attempt, Call, ChannelSender, OpenProviders, Outbound, Probe, Provider};

use crate::connections::Connections;
use crate::keywords::{self, KeywordMessage};
use crate::kinds::KINDS;
use crate::limits::Limits;
use crate::recorder::{Receipt, channel};
use crate::smpp::send::listen;
use crate::smpp::sessions::Sessions;

pub type StartError = reqwest::Error;

/// Clones share their connections and sessions.
#[derive(Clone)]
pub struct SmsSender {
    connections: Arc<Connections>,
    providers: OpenProviders<Connections>,
    keywords: Arc<Mutex<Option<mpsc::Receiver<KeywordMessage>>>>,
}

impl SmsSender {
    /// Creates a sender whose sessions run as tasks of `tasks`. If `public_url`, the gateway's public address, is set, the sender requests
    /// status callbacks from Twilio.
    pub fn start(
        outbound: Outbound,
        public_url: Option<String>,
        limits: Limits,
        tasks: Tasks,
    ) -> Result<(SmsSender, mpsc::Receiver<Receipt>), StartError> {
        let caller = Caller::new(outbound.client().build()?, outbound, limits.call);
        let (receipts, received) = channel();
        let (keywords, keyword_messages) = keywords::channel();
        let sessions = Sessions::new(outbound, limits, tasks);
        let connections = Arc::new(Connections { caller, public_url, limits, sessions, receipts, keywords });
        let keywords = Arc::new(Mutex::new(Some(keyword_messages)));
        Ok((SmsSender { connections, providers: OpenProviders::new(KINDS), keywords }, received))
    }

    /// Returns the queue of keywords that people send over SMPP, or None after the first call.
    #[must_use]
    pub fn keywords(&self) -> Option<mpsc::Receiver<KeywordMessage>> {
        self.keywords.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub async fn attempt(&self, call: &Call<'_>) -> Answer {
        let Content::Sms(content) = &call.job.content else {
            return Answer::refused(Reason::InvalidContent, "content", "the job carries no SMS");
        };
        let content = &SmsContent { from: sender(call, content), text: content.text.clone() };
        if let Err(refused) = check(&call.job.target, content) {
            return refused;
        }
        self.providers.send(Attempt { resources: &*self.connections, call, input: content }).await
    }

    /// Binds the session of an SMPP provider, or keeps it bound, so that receipts arrive. Does nothing if the settings request no receipts.
    pub fn listen(&self, provider: &Provider) -> Result<(), Answer> {
        listen(&self.connections, provider)
    }

    pub async fn reap(&self) -> Infallible {
        self.connections.sessions.reap().await
    }
}

impl ChannelSender for SmsSender {
    const CHANNEL: Channel = Channel::Sms;
    const RECEIPTS: bool = true;

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
}

/// Returns the sender that the send sets for this provider (`_config.from` in its overrides), or else the sender that it
/// sets for all providers. Returns None if it sets neither.
fn sender(call: &Call<'_>, content: &SmsContent) -> Option<String> {
    let config = call.job.overrides.get(&call.provider.identifier).and_then(|members| members.get("_config"));
    let from = config.and_then(|config| config.get("from")).and_then(Value::as_str);
    from.map(str::to_owned).or_else(|| content.from.clone())
}

/// Rejects messages that no provider could send. Planning skips malformed numbers, but earlier releases made jobs for
/// them.
fn check(number: &str, content: &SmsContent) -> Result<(), Answer> {
    if !is_e164(number) {
        let message = "the number is not in E.164 format";
        return Err(Answer::refused(Reason::InvalidAddress, "invalid_number", message));
    }
    if content.text.trim().is_empty() {
        return Err(Answer::refused(Reason::InvalidContent, "empty", "the message has no text"));
    }
    match &content.from {
        Some(from) if !is_sender(from) => {
            Err(Answer::refused(Reason::InvalidContent, "invalid_sender", format!("the sender {SENDER}")))
        }
        _ => Ok(()),
    }
}
