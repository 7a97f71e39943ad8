//! A pace for what is done again and again.

use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior};

/// Ticks once per `span`; a late tick delays the following ones.
pub fn pace(span: Duration) -> Interval {
    let mut pace = tokio::time::interval(span);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    pace
}
