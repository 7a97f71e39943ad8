use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout};

use crate::principal::{Principal, Proof};
use crate::quota::{Lease, PARTS, Quota};

pub const STEP: Duration = Duration::from_secs(2);
/// Limit of all waits of a request together, so that the request is answered within 3 s.
const ALL_STEPS: Duration = Duration::from_millis(2_500);

tokio::task_local! {
    static BUDGET: WaitBudget;
}

/// Places for requests that wait for the database or the log. Clones share them.
#[derive(Clone)]
pub struct WaitQuota {
    places: Quota,
    permits: Arc<Permits>,
}

/// Keeps database connections free for callers with the API secret.
struct Permits {
    /// Half of the database connections.
    users: Semaphore,
    /// A quarter of the database connections.
    unproven: Semaphore,
}

struct WaitBudget {
    room: WaitQuota,
    principal: Cell<Principal>,
    until: Cell<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitError {
    Crowded,
    Overdue,
}

impl WaitQuota {
    /// `connections` is the size of the database connection pool.
    pub fn new(places: usize, connections: u32) -> WaitQuota {
        let one_of = |parts: u32| Semaphore::new((connections / parts).max(1) as usize);
        let permits = Permits { users: one_of(2), unproven: one_of(4) };
        WaitQuota { places: Quota::new(places, PARTS), permits: Arc::new(permits) }
    }

    /// The time limit for all waits starts now. The credentials of `principal` are not verified yet.
    pub async fn serve<T>(&self, principal: Principal, request: impl Future<Output = T>) -> T {
        self.serve_within(ALL_STEPS, principal, request).await
    }

    /// Like [`serve`](Self::serve), with another time limit for all waits together.
    pub async fn serve_within<T>(
        &self,
        limit: Duration,
        principal: Principal,
        request: impl Future<Output = T>,
    ) -> T {
        let until = Cell::new(Instant::now() + limit);
        let budget = WaitBudget { room: self.clone(), principal: Cell::new(principal), until };
        BUDGET.scope(budget, request).await
    }
}

impl Permits {
    async fn of(&self, principal: Principal) -> Option<SemaphorePermit<'_>> {
        let permits = match principal.proof() {
            Proof::Secret => return None,
            Proof::Token => &self.users,
            Proof::PublicKey | Proof::Nothing => &self.unproven,
        };
        permits.acquire().await.ok()
    }
}

pub fn continue_as(principal: Principal) {
    // Outside of a request, there is no principal to replace.
    BUDGET.try_with(|budget| budget.principal.set(principal)).ok();
}

/// Waits for [`STEP`] or the remaining waiting time of the request. For calls to the database, use [`wait_for_database`].
pub async fn wait<T>(answer: impl Future<Output = T>) -> Result<T, WaitError> {
    let _place = place()?;
    timeout(remaining_time(STEP), answer).await.map_err(|_| WaitError::Overdue)
}

/// Like [`wait`], but a caller without the API secret first waits for a permit.
pub fn wait_for_database<T>(answer: impl Future<Output = T>) -> impl Future<Output = Result<T, WaitError>> {
    // Boxed, because a call of the database is large, and would make the futures of all handlers large.
    let answer = Box::pin(answer);
    async {
        let _place = place()?;
        let asked = BUDGET.try_with(|budget| (budget.room.permits.clone(), budget.principal.get())).ok();
        let in_turn = async {
            let _turn = match &asked {
                Some((permits, principal)) => permits.of(*principal).await,
                None => None,
            };
            answer.await
        };
        timeout(remaining_time(STEP), in_turn).await.map_err(|_| WaitError::Overdue)
    }
}

/// None outside of a request.
fn place() -> Result<Option<Lease>, WaitError> {
    let place = BUDGET.try_with(|budget| budget.room.places.take(&budget.principal.get(), 1)).ok();
    place.transpose().map_err(|_| WaitError::Crowded)
}

pub fn remaining_time(limit: Duration) -> Duration {
    let until = BUDGET.try_with(|budget| budget.until.get());
    until.map_or(limit, |until| limit.min(until.saturating_duration_since(Instant::now())))
}

/// Runs a step whose duration depends only on the caller, such as receiving a body, without counting it as waiting time.
pub async fn at_callers_pace<T>(step: impl Future<Output = T>) -> T {
    let begin = Instant::now();
    let outcome = step.await;
    // Outside of a request there is no deadline to move.
    BUDGET.try_with(|budget| budget.until.set(budget.until.get() + begin.elapsed())).ok();
    outcome
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::time::Duration;

    use domain::AppId;
    use tokio::time::{Instant, sleep};

    use super::*;

    const PLACES: usize = 16;
    const APP: AppId = AppId(1);

    #[tokio::test(start_paused = true)]
    async fn all_steps_of_a_request_share_its_waiting_time() {
        let room = WaitQuota::new(PLACES, 2);
        room.serve(Principal::backend(APP), async {
            let begin = Instant::now();
            assert_eq!(wait(pending::<()>()).await, Err(WaitError::Overdue));
            assert_eq!(wait(pending::<()>()).await, Err(WaitError::Overdue));
            assert_eq!(begin.elapsed().as_millis() / 10, 250);
            assert_eq!(wait(ready(7)).await, Ok(7), "an answer that is ready needs no waiting time");
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn time_spent_on_a_slow_caller_is_not_charged() {
        let room = WaitQuota::new(PLACES, 2);
        room.serve(Principal::backend(APP), async {
            at_callers_pace(sleep(Duration::from_secs(20))).await;
            assert_eq!(remaining_time(Duration::from_secs(60)), Duration::from_millis(2_500));
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn an_app_without_a_place_is_refused_at_once_and_another_app_is_served() {
        let room = WaitQuota::new(PLACES, 2);
        let taken = room.places.take(&Principal::backend(APP), PLACES / 2).unwrap();
        let other = room.serve(Principal::backend(AppId(2)), wait(ready(())));
        assert_eq!(other.await, Ok(()));
        room.serve(Principal::backend(APP), async {
            assert_eq!(wait(ready(())).await, Err(WaitError::Crowded));
            drop(taken);
            assert_eq!(wait(ready(())).await, Ok(()));
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn users_wait_for_a_database_permit_and_backends_do_not() {
        let room = WaitQuota::new(PLACES, 4);
        let permits: Vec<_> = (0..2).map(|_| room.permits.users.try_acquire().unwrap()).collect();
        let user = Principal::user(APP, "ada");
        room.serve(user, async {
            assert_eq!(wait_for_database(ready(())).await, Err(WaitError::Overdue));
            continue_as(Principal::backend(APP));
            assert_eq!(wait_for_database(ready(())).await, Ok(()));
        })
        .await;
        drop(permits);
        assert_eq!(room.serve(user, wait_for_database(ready(()))).await, Ok(()));
    }
}
