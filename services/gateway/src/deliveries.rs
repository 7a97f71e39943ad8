//! The deliveries of a send, and what providers report about them.

pub(crate) mod callbacks;
pub(crate) mod explain;
pub(crate) mod list;
pub(crate) mod shown;
