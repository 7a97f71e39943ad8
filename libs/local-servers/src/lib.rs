//! Private servers on this machine: PostgreSQL, nats-server and PgBouncer as child processes, which end with the process that
//! started them.

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
