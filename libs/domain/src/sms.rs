//! Short messages: numbers, the alphabet, how a text is cut into segments, what Twilio's codes mean.

pub mod gsm7;
pub mod number;
pub mod segment;
pub mod twilio;
