//! Profiles and devices of users, topics, and the settings that state how far an app trusts identifiers and profiles.

pub mod device;
pub mod profile;
pub mod topic;
pub(crate) mod trust;
