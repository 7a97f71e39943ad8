//! The browser clients in Chromium: the service worker of `clients/web-push`, and the inbox of `clients/inbox`. Also emails and the
//! pages of the documentation.
//!
//! Chromium receives messages only from the push service of its vendor, and cannot be made to use the stand-in. So the stand-in
//! receives and decrypts the message, and the test passes it to Chromium over the DevTools protocol, as if it had arrived by
//! push.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod browser;
mod chromium;
mod clients;
mod console;
mod console_jobs;
mod console_keyboard;
mod console_settings;
mod console_templates;
#[path = "../e2e/descendants.rs"]
#[allow(dead_code, reason = "the e2e suite uses all of it")]
mod descendants;
mod email;
mod handbook;
mod hands;
mod headless;
mod inbox;
mod linked_preferences;
mod looks;
mod oidc;
mod page;
mod panel;
mod printed_pages;
mod quiet;
mod react;
#[path = "../e2e/running.rs"]
#[allow(dead_code, reason = "the e2e suite uses all of it")]
mod running;
mod send;
mod service_worker;
mod settings;
mod setup;
