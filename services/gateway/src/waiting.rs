//! How long a request may wait for the database and the log, and how many requests may wait at a time.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout};

use crate::shares::holder::{Holder, Proof};
use crate::shares::room::{PARTS, Place, Room};

/// How long one step of a request waits at most.
pub const STEP: Duration = Duration::from_secs(2);
/// How long all steps of a request wait together at most, so that it is answered within 3 s.
const ALL_STEPS: Duration = Duration::from_millis(2_500);

tokio::task_local! {
    static PATIENCE: Patience;
}

/// The requests that wait for the database or the log. Clones share its places.
#[derive(Clone)]
pub(crate) struct WaitingRoom {
    places: Room,
    turns: Arc<Turns>,
}

/// Turns at the database for callers without the secret: they never keep all of its connections busy.
struct Turns {
    /// Half of the connections.
    users: Semaphore,
    /// A quarter of the connections.
    unproven: Semaphore,
}

struct Patience {
    room: WaitingRoom,
    holder: Cell<Holder>,
    until: Cell<Instant>,
}

/// Why an answer was not waited for to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitError {
    /// Too many requests wait already.
    Crowded,
    /// There was no answer in time.
    Overdue,
}

impl WaitingRoom {
    /// Room for so many requests, all of it free. `connections` is how many the process has to the database.
    pub(crate) fn new(places: usize, connections: u32) -> WaitingRoom {
        let one_of = |parts: u32| Semaphore::new((connections / parts).max(1) as usize);
        let turns = Turns { users: one_of(2), unproven: one_of(4) };
        WaitingRoom { places: Room::new(places, PARTS), turns: Arc::new(turns) }
    }

    /// Serves a request of a caller that has proven nothing yet; it may wait from now on.
    pub(crate) async fn serve<T>(&self, holder: Holder, request: impl Future<Output = T>) -> T {
        let until = Cell::new(Instant::now() + ALL_STEPS);
        let patience = Patience { room: self.clone(), holder: Cell::new(holder), until };
        PATIENCE.scope(patience, request).await
    }
}

impl Turns {
    async fn of(&self, holder: Holder) -> Option<SemaphorePermit<'_>> {
        let turns = match holder.proof() {
            Proof::Secret => return None,
            Proof::Token => &self.users,
            Proof::PublicKey | Proof::Nothing => &self.unproven,
        };
        turns.acquire().await.ok()
    }
}

/// From now on, the request that is being served has the shares of this holder.
pub(crate) fn continue_as(holder: Holder) {
    // Outside of a request there are no shares.
    PATIENCE.try_with(|patience| patience.holder.set(holder)).ok();
}

/// Waits for an answer of the log, or of what has its own bound, for as long as the request that is being served may.
pub(crate) async fn wait<T>(answer: impl Future<Output = T>) -> Result<T, WaitError> {
    let _place = place()?;
    timeout(left(STEP), answer).await.map_err(|_| WaitError::Overdue)
}

/// Waits for an answer of the database: first for a turn, if the caller has not proven the secret.
pub(crate) async fn wait_for_database<T>(answer: impl Future<Output = T>) -> Result<T, WaitError> {
    let _place = place()?;
    let asked = PATIENCE.try_with(|patience| (patience.room.turns.clone(), patience.holder.get())).ok();
    let in_turn = async {
        let _turn = match &asked {
            Some((turns, holder)) => turns.of(*holder).await,
            None => None,
        };
        answer.await
    };
    timeout(left(STEP), in_turn).await.map_err(|_| WaitError::Overdue)
}

/// A place for the request that is being served; None outside of a request.
fn place() -> Result<Option<Place>, WaitError> {
    let place = PATIENCE.try_with(|patience| patience.room.places.take(&patience.holder.get(), 1)).ok();
    place.transpose().map_err(|_| WaitError::Crowded)
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
    // Outside of a request there is no deadline to move.
    PATIENCE.try_with(|patience| patience.until.set(patience.until.get() + begin.elapsed())).ok();
    outcome
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::future::{pending, ready};
    use std::time::Duration;

    use domain::AppId;
    use tokio::time::{Instant, sleep};

    use super::*;

    const PLACES: usize = 16;
    const APP: AppId = AppId(1);

    #[tokio::test(start_paused = true)]
    async fn the_steps_of_a_request_share_its_patience() {
        let room = WaitingRoom::new(PLACES, 2);
        room.serve(Holder::backend(APP), async {
            let begin = Instant::now();
            assert_eq!(wait(pending::<()>()).await, Err(WaitError::Overdue));
            assert_eq!(wait(pending::<()>()).await, Err(WaitError::Overdue));
            assert_eq!(begin.elapsed().as_millis() / 10, 250);
            assert_eq!(wait(ready(7)).await, Ok(7), "what is there already needs no patience");
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_caller_costs_nothing() {
        let room = WaitingRoom::new(PLACES, 2);
        room.serve(Holder::backend(APP), async {
            at_callers_pace(sleep(Duration::from_secs(20))).await;
            assert_eq!(left(Duration::from_secs(60)), Duration::from_millis(2_500));
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn an_app_without_a_place_is_refused_at_once_and_another_app_is_served() {
        let room = WaitingRoom::new(PLACES, 2);
        let taken = room.places.take(&Holder::backend(APP), PLACES / 2).unwrap();
        let other = room.serve(Holder::backend(AppId(2)), wait(ready(())));
        assert_eq!(other.await, Ok(()));
        room.serve(Holder::backend(APP), async {
            assert_eq!(wait(ready(())).await, Err(WaitError::Crowded));
            drop(taken);
            assert_eq!(wait(ready(())).await, Ok(()));
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn users_wait_for_a_turn_at_the_database_and_backends_do_not() {
        let room = WaitingRoom::new(PLACES, 4);
        let turns: Vec<_> = (0..2).map(|_| room.turns.users.try_acquire().unwrap()).collect();
        let user = Holder::user(APP, "ada");
        room.serve(user, async {
            assert_eq!(wait_for_database(ready(())).await, Err(WaitError::Overdue));
            continue_as(Holder::backend(APP));
            assert_eq!(wait_for_database(ready(())).await, Ok(()));
        })
        .await;
        drop(turns);
        assert_eq!(room.serve(user, wait_for_database(ready(()))).await, Ok(()));
    }
}
