//! Pacing of repeated work.

use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior};

/// Creates an interval that ticks once per `span`. A late tick delays the following ticks.
pub fn pace(span: Duration) -> Interval {
    let mut pace = tokio::time::interval(span);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    pace
}
