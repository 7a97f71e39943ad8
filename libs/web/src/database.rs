//! Calls to the database by handlers.

use fairness::waiting::{WaitError, wait_for_database};

use crate::failure::{Failure, crowded};

pub const DATABASE_OVERDUE: &str = "the database did not answer in time; repeat the request";

/// Waits for a database call within the remaining waiting time of the request. 503 if the call takes longer, or if too many
/// requests are waiting.
pub fn database<T>(
    answer: impl Future<Output = Result<T, store::Error>>,
) -> impl Future<Output = Result<T, Failure>> {
    let waited = wait_for_database(answer);
    async {
        match waited.await {
            Ok(answer) => Ok(answer?),
            Err(WaitError::Crowded) => Err(crowded()),
            Err(WaitError::Overdue) => Err(Failure::unavailable(DATABASE_OVERDUE, "no answer in time")),
        }
    }
}
