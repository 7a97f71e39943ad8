//! Common code of all services. A service is a function `async fn run(context: Context) -> anyhow::Result<()>` that runs until
//! [`Tasks::stopping`] returns.
#![cfg_attr(not(test), warn(clippy::string_slice))]

mod allocator;
pub mod append;
pub mod clock;
pub mod config;
pub mod connections;
mod context;
pub mod follower;
pub mod fullness;
mod health;
pub mod installation;
pub mod likeness;
pub mod line_rate;
pub mod log_filter;
pub mod metrics;
pub mod pace;
mod panics;
pub mod plans;
pub mod presence;
pub mod provider_test;
mod redact;
pub mod server;
mod server_url;
mod service_main;
mod shutdown;
mod suspicion;
pub mod telemetry;
mod tls;
pub mod trace;
pub mod work_stream;

pub use config::{Config, ConfigError, Network};
pub use context::Context;
pub use fullness::Fullness;
pub use health::{FailingDependency, Readiness, Report};
pub use redact::Redacted;
pub use server_url::{ServerUrl, ServerUrlError};
pub use service_main::{Build, service_main};
pub use shutdown::{ShutdownError, Tasks};
pub use tls::install_crypto_provider;
