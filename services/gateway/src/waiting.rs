//! How long a request may wait for the database and the log, and how many requests may wait at a time.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

/// How long one step of a request waits at most.
const STEP: Duration = Duration::from_secs(2);
/// How long all steps of a request wait together at most, so that it is answered within 3 s.
const ALL_STEPS: Duration = Duration::from_millis(2_500);

tokio::task_local! {
    static PATIENCE: Patience;
}

/// The requests that wait for the database or the log. Clones share its places.
#[derive(Clone)]
pub(crate) struct WaitingRoom {
    places: Arc<Semaphore>,
}

struct Patience {
    room: WaitingRoom,
    until: Cell<Instant>,
}

/// Why an answer was not waited for to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unwaited {
    /// Too many requests wait already.
    Crowded,
    /// There was no answer in time.
    Overdue,
}

impl WaitingRoom {
    /// Room for so many requests, all of it free.
    pub(crate) fn new(places: usize) -> WaitingRoom {
        WaitingRoom { places: Arc::new(Semaphore::new(places)) }
    }

    /// Serves a request, which may wait from now on.
    pub(crate) async fn serve<T>(&self, request: impl Future<Output = T>) -> T {
        let patience = Patience { room: self.clone(), until: Cell::new(Instant::now() + ALL_STEPS) };
        PATIENCE.scope(patience, request).await
    }
}

/// Waits for what the database or the log answers, for as long as the request that is being served may.
pub(crate) async fn wait<T>(answer: impl Future<Output = T>) -> Result<T, Unwaited> {
    let places = PATIENCE.try_with(|patience| patience.room.places.clone());
    let place = places.map(Semaphore::try_acquire_owned);
    if matches!(place, Ok(Err(_))) {
        return Err(Unwaited::Crowded);
    }
    timeout(left(STEP), answer).await.map_err(|_| Unwaited::Overdue)
}

/// What is left of `limit` for the request that is being served.
pub(crate) fn left(limit: Duration) -> Duration {
    let until = PATIENCE.try_with(|patience| patience.until.get());
    until.map_or(limit, |until| limit.min(until.saturating_duration_since(Instant::now())))
}

/// Awaits what depends on the caller alone, at no cost to what may be waited for afterwards.
pub(crate) async fn at_callers_pace<T>(step: impl Future<Output = T>) -> T {
    let begin = Instant::now();
    let outcome = step.await;
    // Outside of a request there is no end to put off.
    PATIENCE.try_with(|patience| patience.until.set(patience.until.get() + begin.elapsed())).ok();
    outcome
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::future::{pending, ready};
    use std::time::Duration;

    use tokio::time::{Instant, sleep};

    use super::{Unwaited, WaitingRoom, at_callers_pace, left, wait};

    const PLACES: u32 = 3;

    #[tokio::test(start_paused = true)]
    async fn the_steps_of_a_request_share_its_patience() {
        let room = WaitingRoom::new(PLACES as usize);
        room.serve(async {
            let begin = Instant::now();
            assert_eq!(wait(pending::<()>()).await, Err(Unwaited::Overdue));
            assert_eq!(wait(pending::<()>()).await, Err(Unwaited::Overdue));
            assert_eq!(begin.elapsed().as_millis() / 10, 250);
            assert_eq!(wait(ready(7)).await, Ok(7), "what is there already needs no patience");
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_caller_costs_nothing() {
        let room = WaitingRoom::new(PLACES as usize);
        room.serve(async {
            at_callers_pace(sleep(Duration::from_secs(20))).await;
            assert_eq!(left(Duration::from_secs(60)), Duration::from_millis(2_500));
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn who_finds_no_place_is_turned_away_at_once() {
        let room = WaitingRoom::new(PLACES as usize);
        let taken = room.places.clone().try_acquire_many_owned(PLACES).unwrap();
        room.serve(async {
            assert_eq!(wait(ready(())).await, Err(Unwaited::Crowded));
            drop(taken);
            assert_eq!(wait(ready(())).await, Ok(()));
        })
        .await;
    }
}
