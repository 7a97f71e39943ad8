use std::convert::Infallible;
use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::OnceLock;
use std::task::Poll;
use std::time::Duration;

use service_kit::Tasks;
use store::deliveries::ledger::HeldClaim;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use crate::ledger_batches::LedgerBatches;

/// Renewals per lease. Two may fail before the lease ends.
const RENEWALS: u32 = 3;
const RENEW_PAUSE: Duration = Duration::from_secs(1);
/// Time for which a call may start to send its content after the process begins to stop. The call must end soon after.
const CONTENT_AFTER_STOP: Duration = Duration::from_secs(5);

/// Time for which no other worker can claim the delivery of a call. Its end moves while the worker renews the claim.
///
/// A call that can still be abandoned without a trace, because the provider has not received the whole message, must end with the
/// lease: another worker may then make the same call. See [`while_held`](Self::while_held).
#[derive(Debug)]
pub struct Lease {
    until: watch::Sender<Instant>,
}

impl Lease {
    #[must_use]
    pub fn lasting(length: Duration) -> Lease {
        Lease::until(Instant::now() + length)
    }

    pub(crate) fn until(end: Instant) -> Lease {
        Lease { until: watch::Sender::new(end) }
    }

    /// Reads the clock, so it is right even after a pause of the process.
    #[must_use]
    pub fn is_held(&self) -> bool {
        Instant::now() < *self.until.borrow()
    }

    pub async fn ends(&self) {
        let mut changes = self.until.subscribe();
        loop {
            let until = *changes.borrow_and_update();
            // The sender lives as long as `self`, so an error is the end of the lease.
            if timeout_at(until, changes.changed()).await.is_err() && !self.is_held() {
                return;
            }
        }
    }

    /// Returns None if the lease ends first.
    pub async fn while_held<F: Future>(&self, part: F) -> Option<F::Output> {
        let mut part = pin!(part);
        let mut ends = pin!(self.ends());
        poll_fn(|context| match self.is_held() && ends.as_mut().poll(context).is_pending() {
            true => part.as_mut().poll(context).map(Some),
            false => Poll::Ready(None),
        })
        .await
    }

    /// If the claim is lost, or PostgreSQL cannot be reached in time, the lease ends. After the process begins to stop, the lease ends
    /// within five seconds, because the call has to end soon.
    pub(crate) async fn keep(
        &self,
        ledger: &LedgerBatches,
        claim: HeldClaim,
        length: Duration,
        stop: &Stop,
    ) -> Infallible {
        tokio::select! {
            never = self.renew(ledger, claim, length) => match never {},
            () = stop.begins() => {}
        }
        let end = Instant::now() + CONTENT_AFTER_STOP;
        self.until.send_if_modified(|until| std::mem::replace(until, end.min(*until)) > end);
        pending().await
    }

    async fn renew(&self, ledger: &LedgerBatches, claim: HeldClaim, length: Duration) -> Infallible {
        let mut pause = length / RENEWALS;
        loop {
            sleep(pause).await;
            // PostgreSQL counts the new lease from a later time than this.
            let asked_at = Instant::now();
            match ledger.renewals.call(claim).await {
                Ok(true) => {
                    self.until.send_replace(asked_at + length);
                    pause = length / RENEWALS;
                }
                Ok(false) => {
                    tracing::warn!(
                        "another worker has the claim of this call, or its delivery has ended; not renewing it"
                    );
                    self.until.send_replace(asked_at);
                    return pending().await;
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot renew the claim during a call; trying again");
                    pause = pause.min(RENEW_PAUSE);
                }
            }
        }
    }
}

pub(crate) struct Stop {
    tasks: Tasks,
    since: OnceLock<Instant>,
}

impl Stop {
    pub(crate) fn new(tasks: &Tasks) -> Stop {
        Stop { tasks: tasks.clone(), since: OnceLock::new() }
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.tasks.token().is_cancelled()
    }

    pub(crate) async fn begins(&self) {
        self.tasks.stopping().await;
    }

    pub(crate) async fn has_lasted(&self, grace: Duration) {
        self.begins().await;
        let since = *self.since.get_or_init(Instant::now);
        sleep_until(since + grace).await;
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const LENGTH: Duration = Duration::from_secs(90);

    #[tokio::test(start_paused = true)]
    async fn a_part_of_a_call_ends_with_its_lease_and_not_before_the_end_of_a_renewed_one() {
        let lease = Lease::lasting(LENGTH);
        assert_eq!(lease.while_held(async { 7 }).await, Some(7));
        let mut hanging = Box::pin(lease.while_held(pending::<()>()));
        tokio::time::advance(LENGTH / 2).await;
        assert_eq!(hanging.as_mut().now_or_never(), None);
        lease.until.send_replace(Instant::now() + LENGTH);
        tokio::time::advance(LENGTH * 3 / 4).await;
        assert_eq!(hanging.as_mut().now_or_never(), None, "the lease was renewed");
        sleep_until(*lease.until.borrow()).await;
        assert_eq!(hanging.await, None);
        assert!(!lease.is_held());
    }

    #[tokio::test(start_paused = true)]
    async fn a_part_of_a_call_does_not_go_on_after_a_pause_beyond_the_lease() {
        let lease = Lease::lasting(LENGTH);
        let mut polls = 0;
        let mut part = Box::pin(lease.while_held(poll_fn(|context| {
            polls += 1;
            context.waker().wake_by_ref();
            Poll::<()>::Pending
        })));
        assert_eq!(part.as_mut().now_or_never(), None);
        tokio::time::advance(LENGTH).await;
        assert_eq!(part.as_mut().now_or_never(), Some(None));
        drop(part);
        assert_eq!(polls, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_claim_ends_the_lease_at_once() {
        let lease = Lease::lasting(LENGTH);
        let mut hanging = Box::pin(lease.while_held(pending::<()>()));
        assert_eq!(hanging.as_mut().now_or_never(), None);
        lease.until.send_replace(Instant::now());
        assert_eq!(hanging.await, None);
    }
}
