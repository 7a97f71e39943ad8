//! Fair shares of the limited resources of a process.
//!
//! One rule applies to every quota: **a principal never occupies more than it leaves free**. So a single app gets at most half, and two
//! apps a third each; users and peers of an app share its part in the same way. See `docs/decisions/0029-shares-of-a-room.md`.

pub mod peer;
pub mod principal;
pub mod quota;
pub mod rate_limit;
pub mod waiting;
