//! Pull requests of a consumer or a reader. One subscription receives the answers to all requests, so messages that arrive after the end of
//! their request are not lost.

use std::time::Duration;

use async_nats::jetstream::consumer::PullConsumer;
use async_nats::jetstream::consumer::pull::BatchConfig;
use async_nats::{Message, StatusCode, Subject, Subscriber};
use futures_util::{FutureExt as _, StreamExt};
use tokio::time::{Instant, timeout_at};

use crate::connection::EventLog;
use crate::error::Error;

/// Time limit for the server's report that a request has expired. If a message arrives at that moment, nats-server 2.9.10 never sends this
/// report, so the limit is only as long as a slow network needs.
const GRACE: Duration = Duration::from_millis(250);
/// Larger than the largest message, and small enough for a process's memory.
const MAX_BYTES: usize = 8 * 1024 * 1024;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndCondition {
    WhenDrained,
    WhenFull,
}

pub(crate) enum Answer {
    Message(Message),
    /// No message arrives until the next request.
    Over,
    /// The server lost the request, or is unavailable.
    Silence,
    Broken(String),
}

pub(crate) struct Pull {
    consumer: PullConsumer,
    inbox: String,
    answers: Subscriber,
    requests: u64,
    /// Tells the end of the last request from the ends of earlier requests.
    reply: Subject,
    missing: usize,
    has_ended: bool,
    silent_at: Instant,
}

impl Pull {
    pub(crate) async fn open(log: &EventLog, consumer: PullConsumer) -> Result<Pull, Error> {
        let inbox = log.client.new_inbox();
        let answers = log.with_timeout("open an inbox", log.client.subscribe(format!("{inbox}.*"))).await?;
        let reply = Subject::from(inbox.as_str());
        let silent_at = Instant::now();
        Ok(Pull { consumer, inbox, answers, requests: 0, reply, missing: 0, has_ended: false, silent_at })
    }

    pub(crate) async fn request(
        &mut self,
        log: &EventLog,
        batch: usize,
        expires: Duration,
        ends: EndCondition,
    ) -> Result<(), Error> {
        let request = BatchConfig {
            batch,
            expires: Some(expires),
            no_wait: ends == EndCondition::WhenDrained,
            max_bytes: MAX_BYTES,
            ..BatchConfig::default()
        };
        self.requests += 1;
        self.reply = Subject::from(format!("{}.{}", self.inbox, self.requests));
        self.silent_at = Instant::now() + expires + GRACE;
        log.with_timeout("accept a pull request", self.consumer.request_batch(request, self.reply.clone()))
            .await?;
        self.missing = batch;
        Ok(())
    }

    pub(crate) fn missing(&self) -> usize {
        self.missing
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Does not wait.
    pub(crate) fn late(&mut self) -> Option<Message> {
        loop {
            let message = self.answers.next().now_or_never()??;
            if message.status.is_none() {
                return Some(message);
            }
        }
    }

    pub(crate) fn wait_again(&mut self, time: Duration) {
        self.missing = 1;
        self.silent_at = Instant::now() + time;
    }

    /// No answer is lost if the future is dropped.
    pub(crate) async fn answer(&mut self) -> Answer {
        loop {
            if self.missing == 0 {
                return Answer::Over;
            }
            let Ok(received) = timeout_at(self.silent_at, self.answers.next()).await else {
                self.missing = 0;
                return Answer::Silence;
            };
            let Some(message) = received else {
                self.has_ended = true;
                return Answer::Broken("the connection is closed".to_owned());
            };
            match message.status {
                None => {
                    self.missing -= 1;
                    self.silent_at = self.silent_at.max(Instant::now() + GRACE);
                    return Answer::Message(message);
                }
                Some(StatusCode::IDLE_HEARTBEAT) => {}
                Some(_) if message.subject != self.reply => {}
                Some(status) => {
                    self.missing = 0;
                    return end(status, message.description.as_deref().unwrap_or_default());
                }
            }
        }
    }
}

fn end(status: StatusCode, description: &str) -> Answer {
    // Status 409 has two meanings: no further message fits into the answer, which is normal, or the consumer was lost.
    let ordinary = match status {
        StatusCode::NOT_FOUND | StatusCode::TIMEOUT => true,
        StatusCode::REQUEST_TERMINATED => {
            ["MaxBytes", "Batch Completed"].iter().any(|end| description.contains(end))
        }
        _ => false,
    };
    if ordinary {
        return Answer::Over;
    }
    if status == StatusCode::NO_RESPONDERS {
        return Answer::Broken("the consumer does not exist".to_owned());
    }
    Answer::Broken(format!("{status} {description}"))
}
