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
use crate::delivered::DeliveredMessage;
use crate::error::Error;
use crate::pull::{Answer, EndCondition, Pull};

/// At `max_ack_pending`, the server neither delivers the remaining messages nor ends the request. So a fetch returns what it has after this
/// time without a message, and its request stays open.
const GATHERING: Duration = Duration::from_millis(50);
/// Maximum duration of one pull request. A longer fetch sends several requests, so that it notices a crash of the server early.
const LONGEST_REQUEST: Duration = Duration::from_secs(2);
const SHORTEST_REQUEST: Duration = Duration::from_millis(10);
/// Minimum duration of a failing fetch, so that a caller can retry in a loop without a pause.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(250);

/// Settings that may change later. The server applies a change to all processes that share the consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsumerSettings {
    pub ack_wait: Duration,
    /// Limit over all processes.
    pub max_ack_pending: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsumerProgress {
    pub ack_floor: u64,
    pub delivered: u64,
    pub pending: u64,
    pub ack_pending: u64,
    pub redelivered: u64,
    /// Open pull requests; more than 0 while a process fetches.
    pub waiting: u64,
}

pub struct Consumer {
    log: EventLog,
    name: String,
    remote: PullConsumer,
    /// Kept between fetches: if messages arrive after a fetch has returned, the next fetch returns them.
    pull: Mutex<Option<Pull>>,
}

impl EventLog {
    /// Opens a durable consumer, or creates it at the beginning of the stream. Redelivery is unlimited.
    ///
    /// # Errors
    /// Returns [`Error::ConsumerDiffers`] if the consumer exists and would deliver different messages, or if the server ignored a setting.
    pub async fn consumer(
        &self,
        stream: StreamName,
        durable: &str,
        settings: ConsumerSettings,
    ) -> Result<Consumer, Error> {
        let pull_config = configuration(durable, settings);
        let wanted = pull_config.clone().into_consumer_config();
        let found = self.find_consumer(stream, durable).await?;
        // If the consumer exists, `create_consumer` would update it. Refuse this if a field that must not change differs.
        if let Some(found) = &found {
            refuse_difference(
                stream,
                durable,
                essential_settings(&wanted),
                essential_settings(&found.config),
            )?;
        }
        if found.is_none_or(|found| adjustable(&found.config) != adjustable(&wanted)) {
            let handle = self.handle(stream).await?;
            let create = handle.create_consumer(pull_config.clone());
            self.with_timeout(format!("create consumer {durable} of {stream}"), create).await?;
        }
        let found = self.find_consumer(stream, durable).await?.ok_or_else(|| {
            Error::unavailable(format!("create consumer {durable} of {stream}"), "it is missing afterwards")
        })?;
        refuse_difference(stream, durable, essential_settings(&wanted), essential_settings(&found.config))?;
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
        self.with_timeout(format!("describe consumer {durable} of {stream}"), answer).await
    }
}

impl EventLog {
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

/// These fields must not change, because they decide which messages are delivered.
fn essential_settings(config: &consumer::Config) -> Vec<(&'static str, String)> {
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
            let stream = stream.to_string();
            let consumer = durable.to_owned();
            return Err(Error::ConsumerDiffers { stream, consumer, field, wanted, found });
        }
    }
    Ok(())
}

impl Consumer {
    /// Returns the available messages, up to `max`, or waits up to `wait` for the first. Messages that an earlier call requested are
    /// returned too, even beyond `max`. One call returns about 8 MiB at most, and a failing call takes at least 250 ms.
    ///
    /// Messages that arrive later are returned by the next call, or to the server by [`release`](Self::release). If a call is dropped, the
    /// server redelivers its messages after `ack_wait`.
    pub async fn fetch(&self, max: usize, wait: Duration) -> Result<Vec<DeliveredMessage>, Error> {
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
    ) -> Result<Vec<DeliveredMessage>, Error> {
        let pull = match pull {
            Some(pull) => pull,
            None => pull.insert(Pull::open(&self.log, self.remote.clone()).await?),
        };
        loop {
            let asked = Instant::now();
            if pull.missing() == 0 {
                let time =
                    until.saturating_duration_since(Instant::now()).clamp(SHORTEST_REQUEST, LONGEST_REQUEST);
                pull.request(&self.log, max, time, EndCondition::WhenDrained).await?;
            }
            // Return all messages of the open request. A message that stayed in this process until the next fetch could exceed
            // its `ack_wait`.
            let max = max.max(pull.missing());
            let batch = self.collect(pull, max, until + SHORTEST_REQUEST).await?;
            if !batch.is_empty() || Instant::now() >= until {
                return Ok(batch);
            }
            // The request ended at once without a message, because other processes had already requested more messages than are
            // available.
            sleep_until(asked + GATHERING).await;
        }
    }

    async fn collect(
        &self,
        pull: &mut Pull,
        max: usize,
        until: Instant,
    ) -> Result<Vec<DeliveredMessage>, Error> {
        let mut batch = Vec::new();
        while batch.len() < max {
            let patience = if batch.is_empty() { until } else { Instant::now() + GATHERING };
            let Ok(answer) = timeout_at(patience, pull.answer()).await else { break };
            match answer {
                Answer::Message(message) => batch.extend(DeliveredMessage::new(&self.log, message)),
                Answer::Over => break,
                // Return the messages that arrived before the error. The next call returns the error.
                Answer::Silence | Answer::Broken(_) if !batch.is_empty() => break,
                // Either the server lost the request, or it is unavailable. If it is unavailable, reading the progress returns
                // the error.
                Answer::Silence => return self.progress().await.map(|_| batch),
                Answer::Broken(reason) => return Err(self.undelivered(&reason)),
            }
        }
        Ok(batch)
    }

    /// Naks the messages that an open request still receives, until it expires or about two seconds have passed. Callers must not fetch
    /// afterwards. After an error, the server delivers the messages again after `ack_wait`.
    pub async fn release(&self) -> Result<(), Error> {
        let Some(mut pull) = self.pull.lock().await.take() else { return Ok(()) };
        let mut waited_again = false;
        loop {
            let message = match pull.answer().await {
                Answer::Message(message) => message,
                // The server may have received the request late. In that case it delivers messages until its own timer for the
                // request ends.
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
            if let Some(delivered) = DeliveredMessage::new(&self.log, message) {
                delivered.nak(None).await?;
            }
        }
    }

    fn undelivered(&self, reason: &dyn Display) -> Error {
        Error::unavailable(format!("deliver from {}", self.name), reason)
    }

    pub async fn progress(&self) -> Result<ConsumerProgress, Error> {
        let info = self.log.with_timeout(format!("describe {}", self.name), self.remote.get_info()).await?;
        Ok(ConsumerProgress::read(&info))
    }
}
