//! Who calls, and what the caller may do.

pub(crate) mod apps;
pub(crate) mod caller;
