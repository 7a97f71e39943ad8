//! Upgrades: messages of every release still produce the same rows, a rolling restart fails no call, and two releases work side
//! by side.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod audience;
mod golden;
mod load;
mod rolling_restart;
mod side_by_side;
mod system;
