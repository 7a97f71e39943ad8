//! Private servers, stand-ins and waiting, for tests and for `tidings up`: real PostgreSQL and nats-server as child
//! processes that end with the process that started them.

mod database;
mod directory;
mod eventually;
mod installed;
mod nats;
mod os_account;
pub mod outbox;
mod password;
pub mod port;
mod postgres;
mod process;
mod service;
pub mod smtp;
pub mod stand_ins;

pub use database::Database;
pub use eventually::eventually;
pub use nats::NatsServer;
pub use postgres::Postgres;
pub use service::{Service, binary};
