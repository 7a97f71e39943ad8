//! Authentication and authorization of callers.

pub(crate) mod actor;
pub(crate) mod apps;
pub(crate) mod caller;
pub(crate) mod device_secret;
pub(crate) mod identity;
pub(crate) mod known_app;
pub(crate) mod refusals;
mod signature;
mod token;
mod token_key;
