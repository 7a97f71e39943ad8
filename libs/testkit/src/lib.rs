//! Private servers, stand-ins and waiting, for tests and for `tidings up`: real PostgreSQL and nats-server as child
//! processes that end with the process that started them.

pub mod apns;
#[cfg(feature = "containers")]
mod container;
mod database;
mod directory;
mod dump;
mod eventually;
pub mod faults;
pub mod faulty;
pub mod fcm;
pub mod http;
mod installed;
pub mod interface;
mod nats;
mod nats_program;
mod os_account;
pub mod outbox;
mod password;
mod pgbouncer;
pub mod port;
mod postgres;
pub mod postmark;
mod process;
pub mod proxy;
pub mod push_service;
mod service;
pub mod sms_http;
pub mod smsc;
pub mod smtp;
pub mod stand_ins;
pub mod tls;
pub mod twilio;
pub mod webhook;

/// The Chromium program of this machine.
///
/// # Errors
/// It is not installed; the message says what to type.
pub fn chromium() -> anyhow::Result<std::path::PathBuf> {
    installed::chromium()
}

#[cfg(feature = "containers")]
pub use container::PostgresContainer;
pub use database::Database;
pub use eventually::eventually;
pub use nats::NatsServer;
pub use pgbouncer::PgBouncer;
pub use postgres::Postgres;
pub use service::{SERVICES, Service, binary};
