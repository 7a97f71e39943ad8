//! Providers of kind `http`: the settings define the requests and the meaning of the responses.

mod exposed;
pub(crate) mod send;
pub mod settings;
pub mod template;

pub use send::Http;
