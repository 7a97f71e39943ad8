//! Shares of the gateway's limited resources: memory for bodies and answers, places for waiting requests, connections, and
//! requests per second.
//!
//! A room is a limited amount of one resource. A holder is a caller, identified by its kind of proof and by up to three keys
//! (app, user, peer). One rule applies to every room: **a holder never occupies more than it leaves free**. So a single app
//! gets at most half of a room, and two apps get at most a third each. Users and peers of an app share its part by the same
//! rule. See `docs/decisions/0029-shares-of-a-room.md`.

pub(crate) mod connections;
pub(crate) mod holder;
pub(crate) mod idle;
pub(crate) mod peer;
pub(crate) mod room;
