//! A channel with scripted answers, which records its calls.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::event::DeliveryJob;
use domain::{Answer, AppId, Channel, DeliveryId, Outcome};
use service_kit::Tasks;
use tokio::sync::Semaphore;
use worker::{ChannelSender, Provider};

pub(crate) const RETRY: Outcome = Outcome::Retry { after: None, limit: None };

/// Returns enough failures to open a provider's breaker for longer than any test runs.
pub(crate) fn overloaded() -> impl Iterator<Item = Step> {
    let asks_for_patience = || Outcome::Retry { after: Some(Duration::from_secs(300)), limit: None };
    (0..domain::breaker::RUN).map(move |_| Step::Answer(asks_for_patience()))
}

/// Behaviour of a call.
pub(crate) enum Step {
    Answer(Outcome),
    Panic,
    /// The answer comes when [`ScriptedChannel::release`] is called.
    Hold(Outcome),
    /// The call has not sent its message yet, and waits until its lease ends.
    WhileHeld,
    /// The process begins to stop during the call.
    Stop(Tasks, Outcome),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) delivery: DeliveryId,
    pub(crate) attempt: u32,
    pub(crate) provider: String,
}

/// A channel with scripted answers. When the script has ended, every message is sent. Clones share the script and the calls.
#[derive(Clone)]
pub(crate) struct ScriptedChannel {
    steps: Arc<Mutex<VecDeque<Step>>>,
    calls: Arc<Mutex<Vec<Call>>>,
    released: Arc<Semaphore>,
    /// Host of every target, or None if targets name no host.
    host: Option<&'static str>,
    longest_call: Option<Duration>,
    lost_leases: Arc<AtomicUsize>,
    tests: Arc<AtomicUsize>,
}

impl ScriptedChannel {
    pub(crate) fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        ScriptedChannel {
            steps: Arc::new(Mutex::new(steps.into_iter().collect())),
            calls: Arc::default(),
            released: Arc::new(Semaphore::new(0)),
            host: None,
            longest_call: None,
            lost_leases: Arc::default(),
            tests: Arc::default(),
        }
    }

    /// Returns the number of provider tests that have begun.
    pub(crate) fn tests(&self) -> usize {
        self.tests.load(Ordering::Relaxed)
    }

    pub(crate) fn at_host(self, host: &'static str) -> Self {
        ScriptedChannel { host: Some(host), ..self }
    }

    pub(crate) fn with_longest_call(self, longest: Duration) -> Self {
        ScriptedChannel { longest_call: Some(longest), ..self }
    }

    /// Number of calls that ended with their lease.
    pub(crate) fn lost_leases(&self) -> usize {
        self.lost_leases.load(Ordering::Relaxed)
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }

    /// Lets all held calls and hanging provider tests continue.
    pub(crate) fn release(&self) {
        self.released.close();
    }
}

impl ScriptedChannel {
    async fn answer(&self, call: &worker::Call<'_>) -> Answer {
        let job = call.job;
        let provider = call.provider.identifier.clone();
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
            Some(Step::WhileHeld) => {
                assert_eq!(call.lease.while_held(std::future::pending::<()>()).await, None);
                self.lost_leases.fetch_add(1, Ordering::Relaxed);
                return Answer::new(RETRY, "lease_ended", "");
            }
            Some(Step::Stop(tasks, outcome)) => {
                tasks.stop();
                outcome
            }
        };
        Answer::new(outcome, "scripted", "with\0in")
    }
}

impl ChannelSender for ScriptedChannel {
    const CHANNEL: Channel = Channel::Email;

    type Prepared = ();

    async fn prepare(&self, _app: AppId, _job: &DeliveryJob) -> Result<(), Answer> {
        Ok(())
    }

    async fn probe(&self, probe: &worker::Probe<'_>) -> Result<String, Answer> {
        self.tests.fetch_add(1, Ordering::Relaxed);
        let Some(first) = probe.provider.settings["first"].as_str() else {
            return Err(Answer::new(Outcome::PauseProvider, "535", "wrong password"));
        };
        match first {
            "panics" => panic!("on purpose"),
            "hangs" => {
                assert!(self.released.acquire().await.is_err());
                Ok("released".to_owned())
            }
            proved => Ok(proved.to_owned()),
        }
    }

    async fn send(&self, call: &worker::Call<'_>, _prepared: ()) -> Answer {
        self.answer(call).await
    }

    fn longest_call(&self, _provider: &Provider) -> Option<Duration> {
        self.longest_call
    }

    fn serves(kind: &str, _target: &str) -> bool {
        kind != "elsewhere"
    }

    fn host(&self, _target: &str) -> Option<String> {
        self.host.map(str::to_owned)
    }
}

/// A scripted channel whose messages must not be repeated and whose provider sends receipts.
pub(crate) struct ScriptedSms(pub(crate) ScriptedChannel);

impl ChannelSender for ScriptedSms {
    const CHANNEL: Channel = Channel::Sms;
    const RECEIPTS: bool = true;

    type Prepared = ();

    async fn prepare(&self, _app: AppId, _job: &DeliveryJob) -> Result<(), Answer> {
        Ok(())
    }

    async fn probe(&self, probe: &worker::Probe<'_>) -> Result<String, Answer> {
        self.0.probe(probe).await
    }

    async fn send(&self, call: &worker::Call<'_>, _prepared: ()) -> Answer {
        self.0.answer(call).await
    }
}
