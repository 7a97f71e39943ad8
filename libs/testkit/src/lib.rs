mod database;
mod dump;
mod eventually;
mod inbox_tables;
mod installation;
pub mod override_options;
pub mod processes;
pub mod proxy;
mod servers;
mod service;

pub use database::Database;
pub use eventually::eventually;
pub use inbox_tables::{INBOX_TABLES, WRONG_COUNTERS};
pub use installation::Installation;
pub use servers::Servers;
pub use service::{SERVICES, Service, binary, binary_in};
