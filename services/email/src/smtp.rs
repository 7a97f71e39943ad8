//! Providers of kind `smtp`: a mail server, called over pooled connections.

pub mod answers;
mod connection;
mod failure;
mod login;
mod oauth;
pub(crate) mod pool;
pub(crate) mod pools;
mod probe;
mod relay;
pub(crate) mod send;
pub mod settings;
mod starttls;
mod tls;

pub use failure::{Failure, Reply, Stage};
pub use pool::PoolLimits;
pub use send::Smtp;
