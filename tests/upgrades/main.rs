//! Upgrades: messages of every release lead to the rows that they always led to, a rolling restart fails no call, and two releases
//! side by side do not harm each other.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod audience;
mod golden;
mod load;
mod rolling_restart;
mod side_by_side;
mod system;
