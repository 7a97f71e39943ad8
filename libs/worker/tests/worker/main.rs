//! Channel workers on real servers, with a scripted channel.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod ahead;
mod attempts;
mod bundles;
mod claims;
mod copies;
mod costs;
mod exchange;
mod fairness;
mod limits;
mod long_calls;
mod missing;
mod open_providers;
mod outages;
mod preparation;
mod provider_tests;
mod routing;
mod scripted;
mod settling;
mod sms;
mod world;
