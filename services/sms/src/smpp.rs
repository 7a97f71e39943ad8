//! Providers of kind `smpp`. Section numbers in comments refer to the specification of SMPP 3.4, issue 1.2.

mod dial;
pub mod incoming;
mod link;
pub mod pdu;
pub mod receipt;
pub(crate) mod send;
mod session;
pub(crate) mod sessions;
pub mod settings;
pub mod status;
mod submission;

pub use send::Smpp;
