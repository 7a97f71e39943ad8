//! Waiting for the database.

use fairness::waiting::{WaitError, wait_for_database};

use crate::OperationError;

/// Waits for a database call within the remaining waiting time of the request, if a request makes the call.
pub(crate) fn database<T>(
    answer: impl Future<Output = Result<T, store::Error>>,
) -> impl Future<Output = Result<T, OperationError>> {
    let waited = wait_for_database(answer);
    async {
        match waited.await {
            Ok(answer) => Ok(answer?),
            Err(WaitError::Crowded) => Err(OperationError::crowded()),
            Err(WaitError::Overdue) => {
                let message = "the database did not answer in time; repeat the request";
                Err(OperationError::later(message, "no answer in time"))
            }
        }
    }
}
