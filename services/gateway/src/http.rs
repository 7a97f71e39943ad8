//! Middleware for all requests, and helpers that read requests and build answers.

pub(crate) mod accept;
pub(crate) mod admission;
pub(crate) mod body;
pub(crate) mod call;
pub(crate) mod cors;
pub(crate) mod cursor;
pub(crate) mod deprecation;
pub(crate) mod exchange;
pub(crate) mod failure;
pub(crate) mod file;
pub(crate) mod handling;
pub(crate) mod headers;
pub(crate) mod inlet;
pub(crate) mod limits;
pub(crate) mod path_id;
pub(crate) mod query;
pub(crate) mod rate_limit;
pub(crate) mod shares;
pub(crate) mod slow_reader;
pub(crate) mod status_body;
pub(crate) mod stranger;
pub(crate) mod structure;
pub(crate) mod trailing_slash;
pub(crate) mod waiting;
