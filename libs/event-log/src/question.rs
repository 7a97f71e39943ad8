//! Questions to the workers of a channel, one of which answers. Questions and answers are not stored.

use std::time::Duration;

use async_nats::{Request, RequestErrorKind, Subject, Subscriber};
use bytes::Bytes;
use domain::Channel;
use futures_util::StreamExt;

use crate::connection::EventLog;
use crate::error::Error;

/// Each question goes to one member of this queue group.
const GROUP: &str = "workers";
/// Maximum size of an answer in bytes.
const LONGEST_ANSWER: usize = 16 * 1024;

/// Questions of others. Misses those that are asked while the connection is down.
pub struct Questions {
    log: EventLog,
    asked: Subscriber,
}

/// A question whose caller waits for the answer.
pub struct Question {
    pub payload: Bytes,
    log: EventLog,
    reply_to: Subject,
}

/// Reason why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    #[error("no process listens for this question")]
    NoListener,
    #[error("a process received the question and did not answer in time")]
    Late,
    #[error("the answer has {0} bytes, which is more than {LONGEST_ANSWER}")]
    Oversized(usize),
    #[error(transparent)]
    Unavailable(Error),
}

fn subject(channel: Channel) -> String {
    format!("tidings.probe.{channel}")
}

impl EventLog {
    /// Asks one worker of a channel, and waits at most `within` for its answer. Without a worker, the error comes at once.
    pub async fn ask(&self, channel: Channel, question: Bytes, within: Duration) -> Result<Bytes, AskError> {
        let unavailable = |reason: String| AskError::Unavailable(Error::unavailable("ask a worker", reason));
        if !self.is_connected() {
            return Err(unavailable("not connected".to_owned()));
        }
        // With an inbox of its own, a question that is given up leaves nothing behind in the client.
        let request = Request::new().payload(question).timeout(Some(within)).inbox(self.client.new_inbox());
        match self.client.send_request(subject(channel), request).await {
            Ok(answer) if answer.payload.len() > LONGEST_ANSWER => {
                Err(AskError::Oversized(answer.payload.len()))
            }
            Ok(answer) => Ok(answer.payload),
            Err(error) => Err(match error.kind() {
                RequestErrorKind::NoResponders => AskError::NoListener,
                RequestErrorKind::TimedOut => AskError::Late,
                _ => unavailable(error.to_string()),
            }),
        }
    }

    /// The subscription survives a lost connection.
    pub async fn questions(&self, channel: Channel) -> Result<Questions, Error> {
        let subscribing = self.client.queue_subscribe(subject(channel), GROUP.to_owned());
        let asked = self.with_timeout("subscribe", subscribing).await?;
        self.ping().await?;
        Ok(Questions { log: self.clone(), asked })
    }
}

impl Questions {
    /// Waits without a time limit; `None` if the connection is permanently closed.
    pub async fn next(&mut self) -> Option<Question> {
        loop {
            let message = self.asked.next().await?;
            if let Some(reply_to) = message.reply {
                return Some(Question { payload: message.payload, log: self.log.clone(), reply_to });
            }
        }
    }
}

impl Question {
    pub async fn answer(self, answer: Bytes) -> Result<(), Error> {
        let Question { log, reply_to, .. } = self;
        log.with_timeout("answer a question", log.client.publish(reply_to, answer)).await
    }
}
