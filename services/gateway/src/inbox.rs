//! A user's inbox: the list, its items, and changes to them.

pub(crate) mod app_state;
pub(crate) mod bulk;
pub(crate) mod change;
pub(crate) mod click;
pub(crate) mod counts;
pub(crate) mod item;
pub(crate) mod list;
pub(crate) mod notification;
pub(crate) mod place;
pub(crate) mod whole;
