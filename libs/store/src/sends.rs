//! Sends and their plans: idempotency keys, the facts that planning reads, and the stored decisions.

pub mod chunk;
pub mod expansion;
pub mod facts;
pub mod idempotency;
pub mod pairs;
pub mod plan;
pub mod planned_chunk;
pub mod retention;
pub mod send;
pub mod status;
pub mod stored_send;
