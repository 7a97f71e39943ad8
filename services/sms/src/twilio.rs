pub(crate) mod send;
pub mod settings;

pub use send::Twilio;
