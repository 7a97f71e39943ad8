//! The `tidings` command as people and scripts use it: the real binary, real servers, the printed lines.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod app;
mod audit;
mod command;
mod deployment;
mod descendants;
mod directory;
mod erasure;
mod guide;
mod inboxes;
mod installation;
mod link_key;
mod log_secrecy;
mod master_key;
mod migrate;
mod mobile_push;
mod parked;
mod preferences;
mod provider;
mod rebuild;
mod rebuild_from_backup;
mod rebuild_interrupted;
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
mod web_push;
mod webhook;
