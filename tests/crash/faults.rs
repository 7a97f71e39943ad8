//! What is done to the system while it works.

mod crashes;
pub(crate) mod others;
pub(crate) mod schedule;
pub(crate) mod strike;
mod striker;
pub(crate) mod struck;

use std::time::SystemTime;

use tokio_util::sync::CancellationToken;

use crate::system::System;
use schedule::Schedule;
use striker::Striker;
use struck::Struck;

/// Carries out the schedule, or as much of it as there is time for until `over`. Afterwards everybody serves again.
///
/// # Panics
/// A process ended that nobody had asked to.
pub(crate) async fn strike(system: &mut System, schedule: &Schedule, over: &CancellationToken) -> Struck {
    Striker::new(system).run(schedule, over).await
}

/// Milliseconds since 1970.
#[allow(clippy::disallowed_methods, reason = "a fault is recorded with its time")]
pub(crate) fn now() -> i64 {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    i64::try_from(since_epoch.as_millis()).unwrap()
}
