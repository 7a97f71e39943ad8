pub mod current;
pub mod list;
pub mod projection;
pub mod retention;
pub mod snoozes;
