//! Pull requests of a consumer or a reader. One subscription receives the answers to all requests, so messages that arrive after
//! the end of their request are not lost.

use std::time::Duration;

use async_nats::jetstream::consumer::PullConsumer;
use async_nats::jetstream::consumer::pull::BatchConfig;
use async_nats::{Message, StatusCode, Subject, Subscriber};
use futures_util::{FutureExt as _, StreamExt};
use tokio::time::{Instant, timeout_at};

use crate::connection::EventLog;
use crate::error::Error;

/// Time limit for the server's report that a request has expired. If a message arrives at the moment of the expiry, nats-server
/// 2.9.10 never sends this report, and the caller waits until this limit. So the limit is only as long as a slow network needs.
const GRACE: Duration = Duration::from_millis(250);
/// Maximum bytes of one request: more than the largest message, and small enough for a process's memory.
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// Condition that ends a request before it expires.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndCondition {
    /// The request ends when all requested messages are delivered, or no further message is available at present.
    WhenDrained,
    /// The request ends when all requested messages are delivered.
    WhenFull,
}

/// Answer of the server to a request.
pub(crate) enum Answer {
    Message(Message),
    /// The request has ended normally. No message arrives until the next request.
    Over,
    /// The request has expired, but the server did not report this: it lost the request, or is unavailable.
    Silence,
    /// The request failed, for example because the connection is closed or the consumer no longer exists.
    Broken(String),
}

pub(crate) struct Pull {
    consumer: PullConsumer,
    inbox: String,
    answers: Subscriber,
    requests: u64,
    /// Reply subject of the last request. It distinguishes the end of this request from the ends of earlier requests.
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

    /// Requests up to `batch` messages within `expires`.
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

    /// Number of messages that the server may still deliver for the last request; 0 when the request has ended.
    pub(crate) fn missing(&self) -> usize {
        self.missing
    }

    /// Returns true if the connection is closed, so that no further request is answered.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Returns a message that arrived after the end of its request, if any. Does not wait.
    pub(crate) fn late(&mut self) -> Option<Message> {
        loop {
            let message = self.answers.next().now_or_never()??;
            if message.status.is_none() {
                return Some(message);
            }
        }
    }

    /// Accepts answers to the last request for a further `time`, starting now.
    pub(crate) fn wait_again(&mut self, time: Duration) {
        self.missing = 1;
        self.silent_at = Instant::now() + time;
    }

    /// Waits for the next answer to the request. No answer is lost if the future is dropped.
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
