//! Who calls, and what the caller may do.

pub(crate) mod apps;
pub(crate) mod caller;
mod identity;
mod known_app;
mod signature;
mod token;
mod token_key;
