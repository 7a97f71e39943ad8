//! The email channel's worker: SMTP over its own small pool of connections.

mod address;
pub mod answers;
mod channel;
mod connection;
mod message;
mod pool;
mod pools;
mod route;
pub mod settings;

pub use channel::SmtpSender;
pub use connection::{Failure, Reply, Stage};
pub use message::{OutgoingMail, Unsendable};
pub use pool::PoolLimits;
pub use pools::ProviderVersion;
