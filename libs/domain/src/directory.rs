//! Profiles and devices of users, and the settings that state how far an app trusts identifiers and profiles.

pub mod device;
pub mod profile;
pub(crate) mod trust;
