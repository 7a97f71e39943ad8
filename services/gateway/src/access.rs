//! Who calls, and what the caller may do.

pub(crate) mod apps;
pub(crate) mod caller;
pub(crate) mod device_secret;
mod identity;
mod known_app;
mod signature;
mod token;
mod token_key;
