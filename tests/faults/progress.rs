//! Progress of a round.

use std::time::Duration;

use testkit::eventually;
use uuid::Uuid;

use crate::system::System;

/// Time limit without progress. If trial calls fail by chance, a circuit breaker pauses its provider for up to five minutes, and
/// the last deliveries of a round have to wait for that long.
const STALLED_AFTER: Duration = Duration::from_secs(360);

impl System {
    /// Waits until this number of deliveries of the requests have a final status.
    pub(crate) async fn until_ended(&mut self, requests: &[Uuid], deliveries: usize) {
        let ended = "SELECT count(*) FROM delivery
             WHERE send_id = ANY($1) AND status NOT IN ('queued', 'sending', 'retrying')";
        self.until_counted(ended, requests, deliveries).await;
    }

    /// Waits until the requests are planned for this number of recipients in total, and no work remains.
    ///
    /// # Panics
    /// Nothing changes for [`STALLED_AFTER`] although work remains, or a service ends.
    pub(crate) async fn until_done(&mut self, requests: &[Uuid], recipients: usize) {
        let planned = "SELECT count(*) FROM planned_recipient WHERE send_id = ANY($1)";
        self.until_counted(planned, requests, recipients).await;
        self.until_idle(STALLED_AFTER).await;
    }

    async fn until_counted(&mut self, query: &'static str, requests: &[Uuid], wanted: usize) {
        let mut last = -1;
        while last < i64::try_from(wanted).unwrap() {
            last = eventually(
                STALLED_AFTER,
                &format!("the count exceeds {last} of {wanted}: {query}"),
                async || {
                    let count: i64 =
                        sqlx::query_scalar(query).bind(requests).fetch_one(&self.database).await.unwrap();
                    (count > last).then_some(count)
                },
            )
            .await;
            self.assert_running();
        }
    }
}
