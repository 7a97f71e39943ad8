//! Status of a send, and cancelling it.

use std::time::Duration;

use domain::{Action, AppId, SendId, Timestamp};
use service_kit::clock;
use store::sends::cancellation_key::KeyedSends;
use store::sends::pairs::{PairFilter, PairPosition, PairStatus};
use store::sends::status::RequestSummary;
use tokio::time::{Instant, sleep};

use crate::waiting::database;
use crate::{Caller, Object, OperationError, Permission, Sends};

/// Maximum time to wait until the dispatcher has written a request that was just accepted.
const PLANNED_WITHIN: Duration = Duration::from_millis(1500);
const ASK_INTERVAL: Duration = Duration::from_millis(50);

/// Sends that are cancelled between two looks at the clock.
const CANCELLED_TOGETHER: u32 = 100;
const CANCELLED_WITHIN: Duration = Duration::from_secs(10);

/// Effect of a cancellation by key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cancelled {
    /// Sends that had the key and were not cancelled by it before.
    pub requests: u64,
    /// Deliveries of these sends that will not be made. A send that is not planned yet counts none.
    pub deliveries: u64,
}

impl Sends {
    /// Returns a request. Fails if it does not exist, or belongs to another app.
    pub async fn request(
        &self,
        caller: &Caller,
        app: AppId,
        request: SendId,
    ) -> Result<RequestSummary, OperationError> {
        caller.may(Permission::View, app)?;
        self.await_planning(app, request).await?;
        let found = database(self.store.sends().find_request(app, request)).await?;
        found.ok_or(OperationError::NotFound(Object::Request))
    }

    /// Lists at most `limit` deliveries of a request, and returns the time of its acceptance.
    pub async fn deliveries(
        &self,
        caller: &Caller,
        (app, request): (AppId, SendId),
        filter: PairFilter<'_>,
        after: Option<PairPosition>,
        limit: i64,
    ) -> Result<(Timestamp, Vec<PairStatus>), OperationError> {
        caller.may(Permission::View, app)?;
        let accepted_at = self.await_planning(app, request).await?;
        let found = self.store.sends().list_pairs(app, request, filter, after, limit);
        Ok((accepted_at, database(found).await?))
    }

    /// Cancels the deliveries of a request that no provider has received yet, and returns their number.
    pub async fn cancel(&self, caller: &Caller, app: AppId, request: SendId) -> Result<u64, OperationError> {
        let actor = caller.authorize(Action::RequestCancel, app)?;
        self.await_planning(app, request).await?;
        let cancelling = self.store.deliveries().cancel_request(app, request, actor);
        let cancelled = database(cancelling).await?;
        tracing::info!(%app, send_id = %request, cancelled, "cancelled a send");
        Ok(cancelled)
    }

    /// Cancels the sends that have a cancellation key, like [`cancel`](Self::cancel). Sends that are not planned yet are cancelled too.
    pub async fn cancel_keyed(
        &self,
        caller: &Caller,
        sends: KeyedSends<'_>,
    ) -> Result<Cancelled, OperationError> {
        let actor = caller.authorize(Action::RequestCancel, sends.app)?;
        if !database(self.store.sends().has_cancellation_key(sends)).await? {
            return Err(OperationError::NotFound(Object::CancellationKey));
        }
        let end = Instant::now() + CANCELLED_WITHIN;
        let mut cancelled = Cancelled::default();
        loop {
            let marked = database(self.store.sends().mark_cancelled(sends, CANCELLED_TOGETHER)).await?;
            if marked.is_empty() {
                break;
            }
            for &request in &marked {
                let cancelling = self.store.deliveries().cancel_request(sends.app, request, actor);
                cancelled.deliveries += database(cancelling).await?;
            }
            database(self.store.sends().end_cancellation(sends.app, &marked)).await?;
            cancelled.requests += marked.len() as u64;
            if Instant::now() > end {
                let message =
                    "not all sends with this cancellation key are cancelled yet; repeat the request";
                return Err(OperationError::later(message, "sends not cancelled in time"));
            }
        }
        tracing::info!(app = %sends.app, requests = cancelled.requests, cancelled = cancelled.deliveries, "cancelled sends by key");
        Ok(cancelled)
    }

    /// Waits up to 1.5 s until the dispatcher has written the request to the database, and returns the time of its acceptance.
    async fn await_planning(&self, app: AppId, request: SendId) -> Result<Timestamp, OperationError> {
        let end = Instant::now() + PLANNED_WITHIN;
        loop {
            if let Some(accepted_at) = database(self.store.sends().find_acceptance(app, request)).await? {
                return Ok(accepted_at);
            }
            if !was_just_accepted(request) || Instant::now() + ASK_INTERVAL > end {
                return Err(OperationError::NotFound(Object::Request));
            }
            sleep(ASK_INTERVAL).await;
        }
    }
}

/// Returns true if the id was created at most 15 s ago. The dispatcher may not have written such a request yet. The id contains
/// its time of creation (RFC 9562, section 5.7).
fn was_just_accepted(request: SendId) -> bool {
    let Some(made) = request.0.get_timestamp() else {
        return false;
    };
    let (seconds, nanos) = made.to_unix();
    let made = Duration::new(seconds, nanos).as_millis();
    let now = u128::try_from(clock::now().millis()).unwrap_or(0);
    now.abs_diff(made) <= 10 * PLANNED_WITHIN.as_millis()
}
