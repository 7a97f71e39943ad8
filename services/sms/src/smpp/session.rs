//! A session with a message centre: one connection at a time, bound again with growing pauses.

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
use crate::answers::ours;
use crate::recorder::Post;

/// Before a connection that could not be made is tried again, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// A connection that held this long was a good one.
const STEADY: Duration = Duration::from_secs(5);

/// A submission that was certainly not taken, and why.
pub(crate) struct NotSubmitted(pub(crate) Answer);

/// A session. Dropping the last one that knows it lets what is under way finish, and then unbinds.
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

    /// The settings that it was made with.
    pub(crate) fn settings(&self) -> &SmppSettings {
        &self.settings
    }

    /// Submits, and returns what the answer comes by. What has not begun by then was not taken.
    pub(crate) async fn submit(
        &self,
        submission: rusmpp::pdus::SubmitSm,
        begun_by: Instant,
    ) -> Result<oneshot::Receiver<Reply>, NotSubmitted> {
        self.keep();
        let ((taken, mut is_taken), (reply, answer)) = (oneshot::channel(), oneshot::channel());
        let busy =
            || NotSubmitted(ours(Outcome::RETRY, "busy", "the session had no room for the message in time"));
        let queued = timeout_at(begun_by, self.orders.send(Order { submission, taken, reply })).await;
        queued.map_err(|_| busy())?.map_err(|_| gone())?;
        let told = match timeout_at(begun_by, &mut is_taken).await {
            Ok(told) => told.map_err(|_| gone())?,
            Err(_) => {
                // From here on no submission can start; one may have started at this very moment.
                is_taken.close();
                is_taken.try_recv().map_err(|_| busy())?
            }
        };
        told.map_err(NotSubmitted)?;
        Ok(answer)
    }

    /// Marks the session as wanted.
    pub(crate) fn keep(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Time since the last submission or [`keep`](Self::keep).
    pub(crate) fn idle(&self) -> Duration {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }
}

fn gone() -> NotSubmitted {
    NotSubmitted(ours(Outcome::RETRY, "connection_lost", "the connection ended before the message was begun"))
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
                    tracing::info!(cause, "an SMPP connection ended");
                    if link.was_used || since.elapsed() >= STEADY {
                        pause = FIRST_PAUSE;
                        continue;
                    }
                    ours(Outcome::RETRY, "connect", cause)
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
        bound.unwrap_or_else(|_| Err(ours(Outcome::RETRY, "connect", "no bound connection in time")))
    }
}

/// Answers orders with the refusal until it is time to try again. None: there are no more.
async fn refuse_until(until: Instant, refusal: &Answer, orders: &mut mpsc::Receiver<Order>) -> Option<()> {
    loop {
        tokio::select! {
            () = sleep_until(until) => return Some(()),
            order = orders.recv() => {
                // Whoever gave up waiting needs no answer.
                order?.taken.send(Err(refusal.clone())).ok();
            }
        }
    }
}

/// Binds and unbinds, which sends nothing.
pub(crate) async fn check(
    settings: &SmppSettings,
    outbound: Outbound,
    limit: Duration,
) -> Result<(), Answer> {
    let (post, _receipts) = Post::discarding();
    let bound = async {
        let stream = dial(outbound, settings).await?;
        let mut link = Link::bind(stream, settings, &post).await?;
        link.unbind().await.map_err(|cause| ours(Outcome::RETRY, "connection_lost", cause))
    };
    timeout(limit, bound).await.unwrap_or_else(|_| Err(ours(Outcome::RETRY, "timeout", "no answer in time")))
}
