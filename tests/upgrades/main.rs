//! Upgrades. Messages of earlier releases still produce the same rows, no call fails during a rolling restart, and two releases
//! can run side by side.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod audience;
mod beside_another_release;
mod completeness;
mod golden;
mod load;
mod many_deliveries;
mod rolling_restart;
mod side_by_side;
mod system;
