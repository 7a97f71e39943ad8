//! Faults that are injected into the system while it works.

mod crashes;
pub(crate) mod disturbance;
pub(crate) mod injection;
mod injector;
pub(crate) mod schedule;
pub(crate) mod tally;

use std::time::SystemTime;

use tokio_util::sync::CancellationToken;

use crate::system::System;
use injector::Injector;
use schedule::Schedule;
use tally::Tally;

/// Injects the faults of the schedule until its end or until `over`. Afterwards every process is ready again.
///
/// # Panics
/// A process ended without a fault.
pub(crate) async fn inject(system: &mut System, schedule: &Schedule, over: &CancellationToken) -> Tally {
    Injector::new(system).run(schedule, over).await
}

/// Milliseconds since 1970.
#[allow(clippy::disallowed_methods, reason = "a fault is recorded with its time")]
pub(crate) fn now() -> i64 {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    i64::try_from(since_epoch.as_millis()).unwrap()
}
