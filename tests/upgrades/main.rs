//! Upgrades: events of every release reach the rows that they always led to, services that are restarted one after the
//! other fail nobody, and two releases side by side do not harm each other.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod audience;
mod callers;
#[path = "../crash/command.rs"]
mod command;
mod golden;
mod journal;
#[path = "../faults/notice.rs"]
mod notice;
#[path = "../faults/people.rs"]
#[allow(dead_code, reason = "another test asks more of them")]
mod people;
mod providers;
mod rolling;
mod side_by_side;
mod system;
