//! Helpers for tests: databases, processes, a proxy that cuts connections, and waiting for a condition.

mod database;
mod dump;
mod eventually;
pub mod processes;
pub mod proxy;
mod service;

pub use database::Database;
pub use eventually::eventually;
pub use service::{SERVICES, Service, binary};
