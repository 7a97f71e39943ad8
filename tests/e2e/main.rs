//! The `tidings` command as people and scripts use it: the real binary, real servers, the printed lines.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod app;
mod command;
mod descendants;
mod directory;
mod erasure;
mod guide;
mod installation;
mod migrate;
mod preferences;
mod provider;
mod running;
mod signing_key;
mod switches;
mod telemetry;
mod template;
mod up;
mod up_failure;
