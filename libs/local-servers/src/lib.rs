//! Private servers on this machine, as child processes that end when the process that started them ends.

#[cfg(feature = "containers")]
mod container;
mod directory;
pub mod installed;
mod nats;
mod nats_program;
mod os_account;
mod password;
mod pgbouncer;
pub mod port;
mod postgres;
pub mod process;
pub mod waiting;

#[cfg(feature = "containers")]
pub use container::PostgresContainer;
pub use nats::NatsServer;
pub use pgbouncer::PgBouncer;
pub use postgres::Postgres;
