//! Session with a message centre, on one connection at a time. Connecting is retried with exponential backoff.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::{Answer, Outcome};
use service_kit::Tasks;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use worker::Outbound;

use super::dial::dial;
use super::link::{End, Link, Reply, SubmitRequest};
use super::settings::SmppSettings;
use crate::recorder::Post;

const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Age from which a connection counts as stable. If a stable connection is lost, the session connects again at once.
const STEADY: Duration = Duration::from_secs(5);

/// Answer for a submission that was certainly not accepted.
pub(crate) struct SubmissionFailure(pub(crate) Answer);

/// Session with a message centre. When it is dropped, open submissions finish, and then the connection unbinds.
pub(crate) struct Session {
    settings: Arc<SmppSettings>,
    requests: mpsc::Sender<SubmitRequest>,
    used: Mutex<Instant>,
}

impl Session {
    pub(crate) fn start(
        settings: SmppSettings,
        outbound: Outbound,
        connecting: Duration,
        post: Post,
        tasks: &Tasks,
    ) -> Session {
        let settings = Arc::new(settings);
        let (requests, taken) = mpsc::channel(settings.window);
        let keeper = SessionTask { settings: settings.clone(), outbound, connecting, post };
        tasks.spawn("SMPP session", async move {
            keeper.keep(taken).await;
            Ok(())
        });
        Session { settings, requests, used: Mutex::new(Instant::now()) }
    }

    pub(crate) fn settings(&self) -> &SmppSettings {
        &self.settings
    }

    /// Submits one part of a message. If writing has not started by `begun_by`, returns an error and never writes the part.
    pub(crate) async fn submit(
        &self,
        submission: rusmpp::pdus::SubmitSm,
        begun_by: Instant,
    ) -> Result<oneshot::Receiver<Reply>, SubmissionFailure> {
        self.keep();
        let (taken, mut is_taken) = oneshot::channel();
        let (reply, answer) = oneshot::channel();
        let busy = || {
            SubmissionFailure(Answer::new(
                Outcome::RETRY,
                "busy",
                "the session could not submit the message in time",
            ))
        };
        let queued =
            timeout_at(begun_by, self.requests.send(SubmitRequest { submission, taken, reply })).await;
        queued.map_err(|_| busy())?.map_err(|_| lost())?;
        let started = match timeout_at(begun_by, &mut is_taken).await {
            Ok(started) => started.map_err(|_| lost())?,
            Err(_) => {
                // After `close`, the submission cannot start. It may have started right before `close`, so look for its
                // result again.
                is_taken.close();
                is_taken.try_recv().map_err(|_| busy())?
            }
        };
        started.map_err(SubmissionFailure)?;
        Ok(answer)
    }

    pub(crate) fn keep(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    pub(crate) fn idle(&self) -> Duration {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }
}

fn lost() -> SubmissionFailure {
    SubmissionFailure(Answer::new(
        Outcome::RETRY,
        "connection_lost",
        "the connection was lost before the message was submitted",
    ))
}

struct SessionTask {
    settings: Arc<SmppSettings>,
    outbound: Outbound,
    connecting: Duration,
    post: Post,
}

impl SessionTask {
    async fn keep(self, mut requests: mpsc::Receiver<SubmitRequest>) {
        let mut pause = FIRST_PAUSE;
        loop {
            let refusal = match self.bind().await {
                Ok(mut link) => {
                    let since = Instant::now();
                    let End::Broken(cause) = link.serve(&mut requests).await else { return };
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
            if refuse_until(until, &refusal, &mut requests).await.is_none() {
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

/// Answers every submission with `refusal` until the session connects again. Returns None if the [`Session`] is dropped.
async fn refuse_until(
    until: Instant,
    refusal: &Answer,
    requests: &mut mpsc::Receiver<SubmitRequest>,
) -> Option<()> {
    loop {
        tokio::select! {
            () = sleep_until(until) => return Some(()),
            request = requests.recv() => {
                // Sending fails if the submitter no longer waits.
                request?.taken.send(Err(refusal.clone())).ok();
            }
        }
    }
}

pub(crate) async fn check(
    settings: &SmppSettings,
    outbound: Outbound,
    limit: Duration,
) -> Result<(), Answer> {
    let (post, _discarded) = Post::discarding();
    let bound = async {
        let stream = dial(outbound, settings).await?;
        let mut link = Link::bind(stream, settings, &post).await?;
        link.unbind().await.map_err(|cause| Answer::new(Outcome::RETRY, "connection_lost", cause))
    };
    timeout(limit, bound)
        .await
        .unwrap_or_else(|_| Err(Answer::new(Outcome::RETRY, "timeout", "no answer in time")))
}
