//! Shares of what the gateway has a bounded amount of: bodies in memory, places, connections, requests per second.
//!
//! Each holder is known by how it is proven and by up to three keys (app, user, peer). One rule holds for every
//! room: **a holder never takes more than it leaves free**. One app gets half of a room at most, two a third each; users
//! and peers of an app share what it has by the same rule. See `docs/decisions/0029-a-holder-leaves-as-much-free.md`.

pub(crate) mod connections;
pub(crate) mod holder;
pub(crate) mod idle;
pub(crate) mod peer;
pub(crate) mod room;
