//! A channel that answers as it is told, and remembers who called.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use domain::event::DeliveryJob;
use domain::{Answer, Channel, DeliveryId, Outcome};
use tokio::sync::Semaphore;
use worker::{Provider, Sender};

pub(crate) const RETRY: Outcome = Outcome::Retry { after: None, limit: None };

/// What happens at a call.
pub(crate) enum Step {
    Answer(Outcome),
    Panic,
    /// The answer comes once [`Scripted::release`] is called.
    Hold(Outcome),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) delivery: DeliveryId,
    pub(crate) attempt: u32,
    pub(crate) provider: String,
}

/// Clones share script and calls. Without a further step, everything is sent.
#[derive(Clone)]
pub(crate) struct Scripted {
    steps: Arc<Mutex<VecDeque<Step>>>,
    calls: Arc<Mutex<Vec<Call>>>,
    released: Arc<Semaphore>,
}

impl Scripted {
    pub(crate) fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        Scripted {
            steps: Arc::new(Mutex::new(steps.into_iter().collect())),
            calls: Arc::default(),
            released: Arc::new(Semaphore::new(0)),
        }
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }

    /// Lets every held call go on.
    pub(crate) fn release(&self) {
        self.released.close();
    }
}

impl Sender for Scripted {
    const CHANNEL: Channel = Channel::Email;

    async fn send(&self, provider: &Provider, job: &DeliveryJob) -> Answer {
        let provider = provider.identifier.clone();
        self.calls.lock().unwrap().push(Call { delivery: job.delivery_id, attempt: job.attempt, provider });
        let step = self.steps.lock().unwrap().pop_front();
        let outcome = match step {
            None => Outcome::Sent { provider_id: Some("p\0-1".to_owned()) },
            Some(Step::Answer(outcome)) => outcome,
            Some(Step::Panic) => panic!("on purpose"),
            Some(Step::Hold(outcome)) => {
                assert!(self.released.acquire().await.is_err());
                outcome
            }
        };
        Answer { outcome, code: "scripted".to_owned(), message: "with\0in".to_owned() }
    }
}
