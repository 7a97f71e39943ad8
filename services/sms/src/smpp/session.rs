//! A session with a message centre: one connection at a time, bound again with exponential backoff.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::{Answer, Outcome};
use service_kit::Tasks;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use worker::Outbound;

use super::dial::dial;
use super::link::{End, Link, Order, Reply};
use super::settings::SmppSettings;
use crate::recorder::Post;

/// First and longest pause before a failed connection is retried.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Age at which a connection counts as successful, which resets the pause.
const STEADY: Duration = Duration::from_secs(5);

/// Answer for a submission that was certainly not accepted.
pub(crate) struct NotSubmitted(pub(crate) Answer);

/// A session. When it is dropped, open submissions finish, and then the connection unbinds.
pub(crate) struct Session {
    settings: Arc<SmppSettings>,
    orders: mpsc::Sender<Order>,
    used: Mutex<Instant>,
}

impl Session {
    /// Starts a session, which binds at once.
    pub(crate) fn start(
        settings: SmppSettings,
        outbound: Outbound,
        connecting: Duration,
        post: Post,
        tasks: &Tasks,
    ) -> Session {
        let settings = Arc::new(settings);
        let (orders, taken) = mpsc::channel(settings.window);
        let keeper = Keeper { settings: settings.clone(), outbound, connecting, post };
        tasks.spawn("SMPP session", async move {
            keeper.keep(taken).await;
            Ok(())
        });
        Session { settings, orders, used: Mutex::new(Instant::now()) }
    }

    pub(crate) fn settings(&self) -> &SmppSettings {
        &self.settings
    }

    /// Submits, and returns the receiver of the answer. A submission not started before `begun_by` was not accepted.
    pub(crate) async fn submit(
        &self,
        submission: rusmpp::pdus::SubmitSm,
        begun_by: Instant,
    ) -> Result<oneshot::Receiver<Reply>, NotSubmitted> {
        self.keep();
        let (taken, mut is_taken) = oneshot::channel();
        let (reply, answer) = oneshot::channel();
        let busy = || {
            NotSubmitted(Answer::new(
                Outcome::RETRY,
                "busy",
                "the session had no room for the message in time",
            ))
        };
        let queued = timeout_at(begun_by, self.orders.send(Order { submission, taken, reply })).await;
        queued.map_err(|_| busy())?.map_err(|_| lost())?;
        let started = match timeout_at(begun_by, &mut is_taken).await {
            Ok(started) => started.map_err(|_| lost())?,
            Err(_) => {
                // After `close`, the submission cannot start. It may have started just before, so check again.
                is_taken.close();
                is_taken.try_recv().map_err(|_| busy())?
            }
        };
        started.map_err(NotSubmitted)?;
        Ok(answer)
    }

    /// Resets the idle time, so that the session stays bound.
    pub(crate) fn keep(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Time since the last submission or [`keep`](Self::keep).
    pub(crate) fn idle(&self) -> Duration {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }
}

fn lost() -> NotSubmitted {
    NotSubmitted(Answer::new(
        Outcome::RETRY,
        "connection_lost",
        "the connection was lost before the message was submitted",
    ))
}

/// State of a session's task.
struct Keeper {
    settings: Arc<SmppSettings>,
    outbound: Outbound,
    connecting: Duration,
    post: Post,
}

impl Keeper {
    /// Keeps the session bound until no sender of orders is left.
    async fn keep(self, mut orders: mpsc::Receiver<Order>) {
        let mut pause = FIRST_PAUSE;
        loop {
            let refusal = match self.bind().await {
                Ok(mut link) => {
                    let since = Instant::now();
                    let End::Broken(cause) = link.serve(&mut orders).await else { return };
                    tracing::info!(cause, "an SMPP connection was lost; binding again");
                    if link.was_used || since.elapsed() >= STEADY {
                        pause = FIRST_PAUSE;
                        continue;
                    }
                    Answer::new(Outcome::RETRY, "connect", cause)
                }
                Err(refusal) => refusal,
            };
            let until = Instant::now() + pause;
            pause = (pause * 2).min(LONGEST_PAUSE);
            if refuse_until(until, &refusal, &mut orders).await.is_none() {
                return;
            }
        }
    }

    async fn bind(&self) -> Result<Link<'_>, Answer> {
        let bound = async {
            let stream = dial(self.outbound, &self.settings).await?;
            Link::bind(stream, &self.settings, &self.post).await
        };
        let bound = timeout(self.connecting, bound).await;
        bound.unwrap_or_else(|_| Err(Answer::new(Outcome::RETRY, "connect", "binding timed out")))
    }
}

/// Answers orders with `refusal` until it is time to connect again. None if no submitter is left.
async fn refuse_until(until: Instant, refusal: &Answer, orders: &mut mpsc::Receiver<Order>) -> Option<()> {
    loop {
        tokio::select! {
            () = sleep_until(until) => return Some(()),
            order = orders.recv() => {
                // A submitter that gave up waiting needs no answer.
                order?.taken.send(Err(refusal.clone())).ok();
            }
        }
    }
}

/// Binds and unbinds, without sending a message.
pub(crate) async fn check(
    settings: &SmppSettings,
    outbound: Outbound,
    limit: Duration,
) -> Result<(), Answer> {
    let (post, _receipts) = Post::discarding();
    let bound = async {
        let stream = dial(outbound, settings).await?;
        let mut link = Link::bind(stream, settings, &post).await?;
        link.unbind().await.map_err(|cause| Answer::new(Outcome::RETRY, "connection_lost", cause))
    };
    timeout(limit, bound)
        .await
        .unwrap_or_else(|_| Err(Answer::new(Outcome::RETRY, "timeout", "no answer in time")))
}
