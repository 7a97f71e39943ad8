#![cfg_attr(not(test), warn(clippy::string_slice))]

pub mod click;
pub mod link;
pub mod password;
pub mod secrets;
pub mod signing;
pub mod unsubscribe;
pub mod vapid;
pub mod webhook;

pub use secrets::{MasterKey, Security};
