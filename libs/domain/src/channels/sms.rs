pub mod gsm7;
pub mod keyword;
pub mod number;
pub mod segment;
pub mod sender;
pub mod twilio;
