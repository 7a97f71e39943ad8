pub mod device;
pub mod profile;
pub mod topic;
pub(crate) mod trust;
