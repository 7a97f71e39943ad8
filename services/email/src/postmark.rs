pub mod answers;
mod body;
mod request;
pub(crate) mod send;
pub mod settings;

pub use send::Postmark;
