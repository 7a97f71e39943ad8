//! Fair shares of the limited resources of a process: memory, waiting requests, connections, and requests per second.
//!
//! A [quota](quota::Quota) is a limited amount of one resource. A [principal](principal::Principal) is a caller, identified by its kind
//! of proof and by up to three keys (app, user, peer). One rule applies to every quota: **a principal never occupies more than it leaves
//! free**. So a single app gets at most half of a quota, and two apps get at most a third each. Users and peers of an app share its part
//! by the same rule. See `docs/decisions/0029-shares-of-a-room.md`.

pub mod peer;
pub mod principal;
pub mod quota;
pub mod rate_limit;
pub mod waiting;
