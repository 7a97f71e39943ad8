//! Users' profiles and devices, and how far a caller is trusted with them.

pub mod device;
pub mod profile;
pub(crate) mod trust;
