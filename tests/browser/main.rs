//! Web push in the browser: our service worker, in Chromium.
//!
//! A browser's push service cannot be replaced by the stand-in. So the tests do the last step themselves: they pass the message
//! that a browser of the stand-in has decrypted to Chromium over the DevTools protocol, as if it had arrived by push.
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
