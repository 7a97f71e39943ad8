//! Providers of kind `apns`: the Apple Push Notification service, over HTTP/2. All pushes of a provider share one
//! connection.
//!
//! <https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns>

pub mod answers;
mod notification;
pub(crate) mod send;
mod settings;
mod token;

pub use send::{Apns, ApnsProvider};
pub use token::ProviderToken;
