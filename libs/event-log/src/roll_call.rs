//! Roll calls: every connected process answers with a report about itself. Calls and answers are not stored.

use std::time::Duration;

use async_nats::{Subject, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::time::{Instant, timeout_at};

use crate::connection::EventLog;
use crate::error::Error;

const SUBJECT: &str = "tidings.status";
/// Maximum number of answers, and their maximum size in bytes. Further and larger ones are ignored.
const MOST_ANSWERS: usize = 1_000;
const LONGEST_ANSWER: usize = 64 * 1024;

/// Roll calls of others. Misses those that are made while the connection is down.
pub struct RollCalls {
    log: EventLog,
    calls: Subscriber,
}

/// A caller that waits for answers.
pub struct RollCall {
    log: EventLog,
    reply_to: Subject,
}

impl EventLog {
    /// Returns the answers that arrive within a time, which the call always takes in full.
    pub async fn roll_call(&self, within: Duration) -> Result<Vec<Bytes>, Error> {
        let until = Instant::now() + within;
        let inbox = self.client.new_inbox();
        let mut answers = self.with_timeout("subscribe", self.client.subscribe(inbox.clone())).await?;
        let call = self.client.publish_with_reply(SUBJECT, inbox, Bytes::new());
        self.with_timeout("make a roll call", call).await?;
        // Without a connection, the client only queues the call, and silence would look like an installation without processes.
        self.ping().await?;
        let mut collected = Vec::new();
        while let Ok(Some(answer)) = timeout_at(until, answers.next()).await {
            let fits = answer.payload.len() <= LONGEST_ANSWER && collected.len() < MOST_ANSWERS;
            if answer.status.is_none() && fits {
                collected.push(answer.payload);
            }
        }
        Ok(collected)
    }

    /// The subscription survives a lost connection.
    pub async fn roll_calls(&self) -> Result<RollCalls, Error> {
        let calls = self.with_timeout("subscribe", self.client.subscribe(SUBJECT)).await?;
        self.ping().await?;
        Ok(RollCalls { log: self.clone(), calls })
    }
}

impl RollCalls {
    /// Waits without a time limit; `None` if the connection is permanently closed.
    pub async fn next(&mut self) -> Option<RollCall> {
        loop {
            if let Some(reply_to) = self.calls.next().await?.reply {
                return Some(RollCall { log: self.log.clone(), reply_to });
            }
        }
    }
}

impl RollCall {
    pub async fn answer(self, report: Bytes) -> Result<(), Error> {
        self.log.with_timeout("answer a roll call", self.log.client.publish(self.reply_to, report)).await
    }
}
