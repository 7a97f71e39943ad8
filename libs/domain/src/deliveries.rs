//! A delivery: its status, attempts, outcomes, retries, routes, and the health of providers.

pub mod breaker;
pub mod delivery;
pub mod health;
pub mod outcome;
pub mod receipt;
pub mod redrive;
pub mod retry;
pub mod route;
pub mod target;
pub mod transition;
