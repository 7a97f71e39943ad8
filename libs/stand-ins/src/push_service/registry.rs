use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{anyhow, ensure};
use aws_lc_rs::rand;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::ENDPOINTS;
use super::browser::Browser;
use super::refused::Refusal;

const MAX_BROWSERS: usize = 100_000;
/// Maximum number of messages that wait for one browser. A further message replaces the oldest one.
const MAX_WAITING: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingMessage {
    /// Time to live, in seconds.
    pub ttl: u64,
    /// Urgency of the message (RFC 8030, section 5.3).
    pub urgency: String,
    /// Topic of the message. A message replaces an earlier one with the same topic.
    pub topic: Option<String>,
    /// Decrypted payload.
    pub message: Vec<u8>,
}

#[derive(Debug, Default)]
pub(super) struct Registry(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    subscriptions: HashMap<String, Subscription>,
    messages: u64,
}

#[derive(Debug)]
struct Subscription {
    browser: Arc<Browser>,
    /// The only key that may sign messages to this subscription, in base64url. None if any key may sign them.
    restricted: Option<String>,
    /// If set, the HTTP status with which all messages to this subscription are answered.
    answers: Option<u16>,
    waiting: Vec<WaitingMessage>,
}

impl Registry {
    pub(super) fn subscribe(
        &self,
        origin: &str,
        restricted: Option<String>,
        answers: Option<u16>,
    ) -> anyhow::Result<Arc<Browser>> {
        let mut id = [0; 24];
        rand::fill(&mut id).map_err(|_| anyhow!("no random numbers"))?;
        let endpoint = format!("{origin}{ENDPOINTS}{}", URL_SAFE_NO_PAD.encode(id));
        let browser = Arc::new(Browser::new(endpoint.clone())?);
        let mut state = self.lock();
        ensure!(state.subscriptions.len() < MAX_BROWSERS, "there are {MAX_BROWSERS} browsers already");
        let subscription =
            Subscription { browser: browser.clone(), restricted, answers, waiting: Vec::new() };
        state.subscriptions.insert(endpoint, subscription);
        Ok(browser)
    }

    pub(super) fn unsubscribe(&self, endpoint: &str) {
        if let Some(subscription) = self.lock().subscriptions.get_mut(endpoint) {
            subscription.answers = Some(410);
        }
    }

    /// Returns the browser with the subscription `endpoint`. Returns a refusal of the message if the subscription does not
    /// exist, is restricted to a key other than `public_key`, or has a fixed answer.
    pub(super) fn subscriber(&self, endpoint: &str, public_key: &str) -> Result<Arc<Browser>, Refusal> {
        let state = self.lock();
        let subscription =
            state.subscriptions.get(endpoint).ok_or(Refusal::new(404, "no such subscription"))?;
        if subscription.restricted.as_deref().is_some_and(|key| key != public_key) {
            return Err(Refusal::new(403, "the subscription is for another key"));
        }
        match subscription.answers {
            Some(code) => Err(Refusal::new(code, "the browser asked for this answer")),
            None => Ok(subscription.browser.clone()),
        }
    }

    /// Stores a message for the browser unless the message's TTL is 0. Returns the number of the message.
    pub(super) fn keep(&self, endpoint: &str, message: WaitingMessage) -> u64 {
        let mut state = self.lock();
        state.messages += 1;
        let number = state.messages;
        if let Some(subscription) = state.subscriptions.get_mut(endpoint) {
            let waiting = &mut subscription.waiting;
            waiting.retain(|earlier| earlier.topic.is_none() || earlier.topic != message.topic);
            if waiting.len() >= MAX_WAITING {
                waiting.remove(0);
            }
            if message.ttl > 0 {
                waiting.push(message);
            }
        }
        number
    }

    pub(super) fn waiting(&self, endpoint: &str) -> Vec<WaitingMessage> {
        self.lock().subscriptions.get(endpoint).map_or_else(Vec::new, |found| found.waiting.clone())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
