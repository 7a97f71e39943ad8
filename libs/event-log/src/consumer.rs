//! Durable consumers: work on a stream, shared by any number of processes.

use std::fmt::Display;
use std::time::Duration;

use async_nats::jetstream::consumer::{
    self, AckPolicy, DeliverPolicy, IntoConsumerConfig, PullConsumer, ReplayPolicy, pull,
};
use async_nats::jetstream::context::ConsumerInfoErrorKind;
use domain::StreamName;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use crate::connection::EventLog;
use crate::delivered::Delivered;
use crate::error::Error;
use crate::pull::{Answer, Ends, Pull};

/// While `max_ack_pending` is used up, the server ends a request for many only when its time is over, and would keep us
/// from the messages it has brought: after this pause among them they are taken, and the request stays open.
const GATHERING: Duration = Duration::from_millis(50);
/// A longer wait is made of several requests, so that a crash of the server is noticed early.
const LONGEST_REQUEST: Duration = Duration::from_secs(2);
const SHORTEST_REQUEST: Duration = Duration::from_millis(10);
/// A fetch that fails takes at least this long, so that a loop over it needs no pause of its own.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(250);

/// What may differ between consumers. Changing it changes the consumer on the server, for all who share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsumerSettings {
    /// How long a delivered message may go unanswered before it is delivered again.
    pub ack_wait: Duration,
    /// How many messages may be delivered and unanswered, over all processes.
    pub max_ack_pending: i64,
}

/// A durable consumer's place in its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsumerProgress {
    /// Every message up to this sequence is acknowledged.
    pub ack_floor: u64,
    /// The last message that was ever delivered.
    pub delivered: u64,
    /// Messages never delivered yet.
    pub pending: u64,
    /// Messages delivered and not acknowledged yet.
    pub ack_pending: u64,
    /// Of those, the ones delivered more than once.
    pub redelivered: u64,
    /// Requests for messages that wait at present: somebody is at work.
    pub waiting: u64,
}

/// One process's hold on a durable consumer.
pub struct Consumer {
    log: EventLog,
    name: String,
    remote: PullConsumer,
    /// Kept between fetches: what a request brings after its fetch has returned is found by the next one.
    pull: Mutex<Option<Pull>>,
}

impl EventLog {
    /// Opens a durable consumer of the whole stream, created at its beginning if it is missing. Messages are
    /// delivered until they are acknowledged, however often that takes.
    ///
    /// # Errors
    /// [`Error::ConsumerDiffers`] when it exists and would deliver something else, or the server dropped a field.
    pub async fn consumer(
        &self,
        stream: StreamName,
        durable: &str,
        settings: ConsumerSettings,
    ) -> Result<Consumer, Error> {
        let pull_config = configuration(durable, settings);
        let wanted = pull_config.clone().into_consumer_config();
        let found = self.find_consumer(stream, durable).await?;
        // Creating a consumer that exists updates it, so only what may change may differ before.
        if let Some(found) = &found {
            refuse_difference(stream, durable, essential(&wanted), essential(&found.config))?;
        }
        if found.is_none_or(|found| adjustable(&found.config) != adjustable(&wanted)) {
            let handle = self.handle(stream).await?;
            let create = handle.create_consumer(pull_config.clone());
            self.bounded(format!("create consumer {durable} of {stream}"), create).await?;
        }
        let found = self.find_consumer(stream, durable).await?.ok_or_else(|| {
            Error::unavailable(format!("create consumer {durable} of {stream}"), "it is not there afterwards")
        })?;
        refuse_difference(stream, durable, essential(&wanted), essential(&found.config))?;
        refuse_difference(stream, durable, adjustable(&wanted), adjustable(&found.config))?;
        Ok(Consumer {
            log: self.clone(),
            name: format!("consumer {durable} of {stream}"),
            remote: PullConsumer::new(pull_config, found, self.context.as_ref().clone()),
            pull: Mutex::default(),
        })
    }

    async fn find_consumer(
        &self,
        stream: StreamName,
        durable: &str,
    ) -> Result<Option<consumer::Info>, Error> {
        let handle = self.handle(stream).await?;
        let answer = async {
            match handle.consumer_info(durable).await {
                Ok(info) => Ok(Some(info)),
                Err(error) if error.kind() == ConsumerInfoErrorKind::NotFound => Ok(None),
                Err(error) => Err(error),
            }
        };
        self.bounded(format!("describe consumer {durable} of {stream}"), answer).await
    }
}

impl EventLog {
    /// Where a durable consumer stands; None when there is no such consumer.
    ///
    /// # Errors
    /// When the server cannot be asked.
    pub async fn consumer_progress(
        &self,
        stream: StreamName,
        durable: &str,
    ) -> Result<Option<ConsumerProgress>, Error> {
        Ok(self.find_consumer(stream, durable).await?.as_ref().map(ConsumerProgress::read))
    }
}

impl ConsumerProgress {
    fn read(info: &async_nats::jetstream::consumer::Info) -> ConsumerProgress {
        ConsumerProgress {
            ack_floor: info.ack_floor.stream_sequence,
            delivered: info.delivered.stream_sequence,
            pending: info.num_pending,
            ack_pending: info.num_ack_pending as u64,
            redelivered: info.num_redelivered as u64,
            waiting: info.num_waiting as u64,
        }
    }
}

fn configuration(durable: &str, settings: ConsumerSettings) -> pull::Config {
    pull::Config {
        durable_name: Some(durable.to_owned()),
        deliver_policy: DeliverPolicy::All,
        ack_policy: AckPolicy::Explicit,
        replay_policy: ReplayPolicy::Instant,
        max_deliver: -1,
        ack_wait: settings.ack_wait,
        max_ack_pending: settings.max_ack_pending,
        ..pull::Config::default()
    }
}

/// What decides which messages are delivered, and until when.
fn essential(config: &consumer::Config) -> Vec<(&'static str, String)> {
    vec![
        ("deliver_policy", format!("{:?}", config.deliver_policy)),
        ("deliver_subject", format!("{:?}", config.deliver_subject)),
        ("ack_policy", format!("{:?}", config.ack_policy)),
        ("replay_policy", format!("{:?}", config.replay_policy)),
        ("max_deliver", config.max_deliver.to_string()),
        ("filter_subject", config.filter_subject.clone()),
        ("headers_only", config.headers_only.to_string()),
        ("backoff", format!("{:?}", config.backoff)),
        ("inactive_threshold", format!("{:?}", config.inactive_threshold)),
        ("mem_storage", config.memory_storage.to_string()),
    ]
}

fn adjustable(config: &consumer::Config) -> Vec<(&'static str, String)> {
    vec![
        ("ack_wait", format!("{:?}", config.ack_wait)),
        ("max_ack_pending", config.max_ack_pending.to_string()),
    ]
}

fn refuse_difference(
    stream: StreamName,
    durable: &str,
    wanted: Vec<(&'static str, String)>,
    found: Vec<(&'static str, String)>,
) -> Result<(), Error> {
    for ((field, wanted), (_, found)) in wanted.into_iter().zip(found) {
        if wanted != found {
            let (stream, consumer) = (stream.to_string(), durable.to_owned());
            return Err(Error::ConsumerDiffers { stream, consumer, field, wanted, found });
        }
    }
    Ok(())
}

impl Consumer {
    /// Takes up to `max` messages, or as many as an earlier call has left to come: those that are there, or else the first
    /// that comes within `wait`. Empty when none came. One call brings about 8 MiB at most.
    ///
    /// Messages may come in when the call has returned; the next one brings them, or [`release`](Self::release) gives
    /// them back. Those that a dropped call had taken are delivered again after `ack_wait`.
    ///
    /// # Errors
    /// When the server is away, does not answer, or has lost the consumer. Call again; a failing call takes at least
    /// 250 ms.
    pub async fn fetch(&self, max: usize, wait: Duration) -> Result<Vec<Delivered>, Error> {
        let mut pull = self.pull.lock().await;
        match self.fetch_until(&mut pull, max, Instant::now() + wait).await {
            Ok(batch) => Ok(batch),
            Err(error) => {
                if pull.as_ref().is_some_and(Pull::has_ended) {
                    *pull = None;
                }
                sleep(PAUSE_AFTER_FAILURE).await;
                Err(error)
            }
        }
    }

    async fn fetch_until(
        &self,
        pull: &mut Option<Pull>,
        max: usize,
        until: Instant,
    ) -> Result<Vec<Delivered>, Error> {
        let pull = match pull {
            Some(pull) => pull,
            None => pull.insert(Pull::open(&self.log, self.remote.clone()).await?),
        };
        loop {
            let asked = Instant::now();
            if pull.missing() == 0 {
                let time =
                    until.saturating_duration_since(Instant::now()).clamp(SHORTEST_REQUEST, LONGEST_REQUEST);
                pull.request(&self.log, max, time, Ends::WhenDrained).await?;
            }
            // All that was asked for before is taken now: it must not grow old here.
            let max = max.max(pull.missing());
            let batch = self.collect(pull, max, until + SHORTEST_REQUEST).await?;
            if !batch.is_empty() || Instant::now() >= until {
                return Ok(batch);
            }
            // Refused at once, since others have asked for more than there is.
            sleep_until(asked + GATHERING).await;
        }
    }

    async fn collect(&self, pull: &mut Pull, max: usize, until: Instant) -> Result<Vec<Delivered>, Error> {
        let mut batch = Vec::new();
        while batch.len() < max {
            let patience = if batch.is_empty() { until } else { Instant::now() + GATHERING };
            let Ok(answer) = timeout_at(patience, pull.answer()).await else { break };
            match answer {
                Answer::Message(message) => batch.extend(Delivered::new(&self.log, message)),
                Answer::Over => break,
                // What did arrive is worth more than the reason why no more will; the next call meets that again.
                Answer::Silence | Answer::Broken(_) if !batch.is_empty() => break,
                // Either the server forgot the request alone, or there is nobody to remember it.
                Answer::Silence => return self.progress().await.map(|_| batch),
                Answer::Broken(reason) => return Err(self.undelivered(&reason)),
            }
        }
        Ok(batch)
    }

    /// Gives back what a request still brings, to whoever fetches elsewhere. To be called when no more is fetched here;
    /// takes about as long as the last fetch would have waited, or two seconds more.
    ///
    /// # Errors
    /// When the server is away, or a message cannot be given back; it is delivered again after `ack_wait`.
    pub async fn release(&self) -> Result<(), Error> {
        let Some(mut pull) = self.pull.lock().await.take() else { return Ok(()) };
        let mut waited_again = false;
        loop {
            let message = match pull.answer().await {
                Answer::Message(message) => message,
                // Perhaps the server took up the request late, and goes on with it until its time is over there.
                Answer::Silence if !waited_again => {
                    waited_again = true;
                    self.progress().await?;
                    pull.wait_again(LONGEST_REQUEST);
                    continue;
                }
                _ => match pull.late() {
                    Some(message) => message,
                    None => return Ok(()),
                },
            };
            if let Some(delivered) = Delivered::new(&self.log, message) {
                delivered.nak(None).await?;
            }
        }
    }

    fn undelivered(&self, reason: &dyn Display) -> Error {
        Error::unavailable(format!("deliver from {}", self.name), reason)
    }

    /// Where the consumer stands, over all processes that share it.
    ///
    /// # Errors
    /// When the server cannot be asked or has no such consumer.
    pub async fn progress(&self) -> Result<ConsumerProgress, Error> {
        let info = self.log.bounded(format!("describe {}", self.name), self.remote.get_info()).await?;
        Ok(ConsumerProgress::read(&info))
    }
}
