//! The control plane: apps, their keys, providers and templates.

pub mod app;
pub mod link_key;
pub mod provider;
pub mod quota;
pub mod setting;
pub mod signing_key;
pub mod template;
pub mod vapid_key;
pub mod volume;
