//! Tests of the mobile push channel with the stand-ins for APNs and FCM.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod agreement;
mod apns;
mod apns_answers;
mod content;
mod fcm;
mod fcm_answers;
mod fixture;
mod settings;
