//! SMS: phone numbers, alphabets, segmentation of texts, and Twilio's error codes.

pub mod gsm7;
pub mod number;
pub mod segment;
pub mod twilio;
