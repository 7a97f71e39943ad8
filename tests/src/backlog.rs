//! Remaining work in a system.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use domain::{Channel, Lane, StreamName};
use testkit::eventually;

use crate::checkpoint::{self, Place};
use crate::process::Role;
use crate::system::System;

/// Remaining work in the tables and streams of a system, which are read one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backlog {
    /// Amount of remaining work by kind, without zeros.
    pub left: BTreeMap<String, i64>,
    /// Number of messages that were ever published. A message counts once for each service that reads its stream.
    written: u64,
}

impl fmt::Display for Backlog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left: Vec<_> = self.left.iter().map(|(what, count)| format!("{count} {what}")).collect();
        f.write_str(&left.join("; "))
    }
}

impl Backlog {
    /// Reads the backlog. Returns None if a server does not answer, or a consumer does not exist yet.
    pub async fn read(system: &System) -> Option<Backlog> {
        let mut backlog = Backlog { left: BTreeMap::new(), written: 0 };
        for &lane in Lane::ALL {
            backlog.add_consumer(system, StreamName::Send(lane), "dispatcher").await?;
            for channel in Channel::EXTERNAL {
                backlog.add_consumer(system, StreamName::Job(channel, lane), channel.as_str()).await?;
            }
        }
        let checkpoints = checkpoint::current(&system.database).await.ok()?;
        let at: BTreeMap<Place, i64> = checkpoints.into_iter().map(|one| (one.place, one.seq)).collect();
        let runs = |role| system.processes.iter().any(|process| process.name.role == role);
        let inbox = checkpoint::of_inbox(system.partitions).filter(|_| runs(Role::Inbox));
        let webhooks = checkpoint::of_webhooks(system.partitions).filter(|_| runs(Role::Webhooks));
        for (place, stream) in inbox.chain(webhooks) {
            let last = system.log.state(stream).await.ok()?.last_seq;
            backlog.written += last;
            let passed = at.get(&place).copied().unwrap_or_default();
            let behind = i64::try_from(last).unwrap() - passed;
            backlog.add(format!("events of {stream} that {} has not committed", place.0), behind);
        }
        let (timers, deliveries, webhooks, snoozes) = sqlx::query_as(
            "SELECT (SELECT count(*) FROM timer),
                    (SELECT count(*) FROM delivery WHERE status IN ('queued', 'sending', 'retrying')),
                    (SELECT count(*) FROM webhook_message WHERE status = 'pending'),
                    (SELECT count(*) FROM inbox_item WHERE snoozed_until IS NOT NULL)",
        )
        .fetch_one(&system.database)
        .await
        .ok()?;
        backlog.add("timers".to_owned(), timers);
        backlog.add("deliveries without a final status".to_owned(), deliveries);
        backlog.add("pending webhooks".to_owned(), webhooks);
        backlog.add("snoozed items".to_owned(), snoozes);
        Some(backlog)
    }

    async fn add_consumer(&mut self, system: &System, stream: StreamName, durable: &str) -> Option<()> {
        self.written += system.log.state(stream).await.ok()?.last_seq;
        let progress = system.log.consumer_progress(stream, durable).await.ok()??;
        let unacknowledged = i64::try_from(progress.pending + progress.ack_pending).ok()?;
        self.add(format!("messages of {stream}"), unacknowledged);
        Some(())
    }

    fn add(&mut self, what: String, count: i64) {
        if count != 0 {
            self.left.insert(what, count);
        }
    }

    /// Returns true if no work remains and no message was published since the previous backlog was read. A single empty backlog
    /// is not enough, because a message may move from a stream to a table, or back, while the backlog is read.
    #[must_use]
    pub fn is_idle_since(&self, before: Option<&Backlog>) -> bool {
        self.left.is_empty() && before == Some(self)
    }
}

impl System {
    /// Waits until no work remains.
    ///
    /// # Panics
    /// The backlog does not change for `stalled_after`, or a process ends.
    pub async fn until_idle(&mut self, stalled_after: Duration) {
        let mut last: Option<Backlog> = None;
        loop {
            let now = eventually(stalled_after, &format!("the backlog differs from {last:?}"), async || {
                self.assert_running();
                let now = Backlog::read(self).await?;
                (now.left.is_empty() || last.as_ref() != Some(&now)).then_some(now)
            })
            .await;
            if now.is_idle_since(last.as_ref()) {
                return;
            }
            last = Some(now);
        }
    }
}
