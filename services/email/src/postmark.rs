//! Providers of kind `postmark`: an HTTP API that accepts emails as JSON.

pub mod answers;
mod request;
pub(crate) mod send;
pub mod settings;

pub use send::Postmark;
