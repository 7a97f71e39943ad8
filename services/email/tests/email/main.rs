//! Tests of the email channel with the stand-ins for a mail server and Postmark.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod agreement;
mod answers;
mod attachments;
mod copies;
mod fixture;
mod identity;
mod injection;
mod login;
mod message;
mod oddities;
mod pool;
mod postmark;
mod probe;
mod replies;
mod settings;
mod tls;
