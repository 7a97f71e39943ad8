//! Credentials: the master key and the secrets that it seals, signing keys of apps, VAPID keys, the secrets of webhook endpoints, and the signed links in emails
//! and push messages.
#![cfg_attr(not(test), warn(clippy::string_slice))]

pub mod click;
pub mod link;
pub mod secrets;
pub mod signing;
pub mod unsubscribe;
pub mod vapid;
pub mod webhook;

pub use secrets::{MasterKey, Security};
