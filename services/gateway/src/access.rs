//! Who calls, and what the caller may do.

pub(crate) mod actor;
pub(crate) mod apps;
pub(crate) mod caller;
mod identity;
mod known_app;
pub(crate) mod refusals;
mod signature;
mod token;
mod token_key;
