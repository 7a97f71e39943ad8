//! Events, the envelope of a message, and the streams of the event log.

pub mod event;
pub mod stream;
