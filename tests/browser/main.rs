//! Web push up to the person: the service worker that we ship, in Chromium.
//!
//! A browser's own push service cannot be replaced by ours, so the message takes the last step by hand: what a browser at
//! the push service stand-in has decrypted is handed to Chromium by its DevTools protocol, as if it had come by push.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod chromium;
#[path = "../e2e/descendants.rs"]
#[allow(dead_code, reason = "the e2e suite uses all of it")]
mod descendants;
mod page;
#[path = "../e2e/running.rs"]
#[allow(dead_code, reason = "the e2e suite uses all of it")]
mod running;
mod send;
mod service_worker;
