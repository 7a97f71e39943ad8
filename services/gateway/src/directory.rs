//! Users, their profiles, preferences and devices, and the categories and topics of apps.

pub(crate) mod bulk;
pub(crate) mod categories;
pub(crate) mod connect;
pub(crate) mod devices;
pub(crate) mod erasure;
mod malformed_address;
pub(crate) mod preference_page;
pub(crate) mod preferences;
pub(crate) mod profile;
pub(crate) mod subscribers;
pub(crate) mod subscriptions;
pub(crate) mod topics;
pub(crate) mod unsubscribe;
mod unsubscribe_page;
pub(crate) mod users;
