//! Parts of an HTTP server that know no routes: reading requests, sharing capacity among callers, building answers.
#![cfg_attr(not(test), warn(clippy::string_slice))]

pub mod accept;
pub mod admission;
pub mod body;
pub mod call;
pub mod connections;
pub mod cors;
pub mod cursor;
pub mod database;
pub mod declared;
pub mod deprecation;
pub mod described;
pub mod failure;
pub mod file;
pub mod handling;
pub mod headers;
pub mod idle;
pub mod inlet;
pub mod limits;
pub mod openapi;
pub mod path_id;
pub mod peer;
pub mod query;
pub mod request_id;
pub mod request_path;
pub mod slow_reader;
pub mod status_body;
pub mod stranger;
pub mod structure;
pub mod vocabulary;
pub mod warning;
