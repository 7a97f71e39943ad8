//! Tests of the program `tidings` as operators and scripts use it, with real servers: commands, exit codes and printed lines.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod app;
mod audit;
mod command;
mod deployment;
mod descendants;
mod directory;
mod erasure;
mod guide;
mod healthcheck;
mod inboxes;
mod installation;
mod log_secrecy;
mod master_key;
mod migrate;
mod mobile_push;
mod observability;
mod parked;
mod preferences;
mod provider;
mod rebuild;
mod rebuild_under_load;
mod rotation;
mod running;
mod short_messages;
mod signing_key;
mod suppression;
mod switches;
mod telemetry;
mod template;
mod up;
mod up_failure;
mod verify;
mod verify_from_backup;
mod web_push;
mod webhook;
