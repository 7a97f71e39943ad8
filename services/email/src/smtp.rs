//! Providers of kind `smtp`: a relay, reached over pooled connections.

pub mod answers;
mod connection;
mod failure;
mod login;
mod oauth;
mod pool;
mod pools;
mod probe;
mod route;
pub mod settings;
mod starttls;
mod tls;

pub use failure::{Failure, Reply, Stage};
pub(crate) use pool::Pool;
pub use pool::PoolLimits;
pub(crate) use pools::{Pools, ProviderVersion};
pub(crate) use probe::probe;
