pub mod event;
pub mod stream;
