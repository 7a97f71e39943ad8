//! The library of the suites: a system of service processes, an API client, users, numbered sends, checkpoints, and the backlog
//! of remaining work.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod api;
pub mod backlog;
pub mod check;
pub mod checkpoint;
pub mod claims;
pub mod command;
pub mod cpu;
mod items_added;
pub mod numbered_send;
mod pace;
pub mod person;
pub mod process;
mod random_numbers;
pub mod retrying_client;
pub mod sessions;
pub mod system;
pub mod web_socket;

pub use api::{Api, App};
pub use backlog::Backlog;
pub use command::Environment;
pub use items_added::items_added;
pub use pace::pace;
pub use person::Person;
pub use process::{Name, Process, Role};
pub use random_numbers::RandomNumbers;
pub use system::System;
