//! Providers of kind `fcm`: Firebase Cloud Messaging, over its HTTP v1 API.
//!
//! <https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages/send>

mod access_token;
pub mod answers;
pub(crate) mod send;
mod settings;

pub use send::{Fcm, FcmProvider};
