//! A user's inbox: the list, its items, and what changes them.

pub(crate) mod item;
pub(crate) mod list;
pub(crate) mod notification;
