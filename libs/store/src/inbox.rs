//! The inbox read model: lists for readers, and the projection that writes it.

pub mod list;
pub mod projection;
