//! Providers of kind `smtp`: a mail server, called over pooled connections.

pub mod answers;
mod client_name;
mod connection;
mod failure;
mod features;
pub(crate) mod limits;
mod login;
mod oauth;
pub(crate) mod pool;
pub(crate) mod pools;
mod probe;
mod relay;
pub mod reply;
pub(crate) mod send;
pub mod settings;
mod tls;
mod wire;

pub use failure::{Failure, Stage};
pub use limits::{PoolLimits, Times};
pub use reply::Reply;
pub use send::Smtp;
