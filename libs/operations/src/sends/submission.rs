//! Sends as callers submit them.

use std::num::NonZeroU32;

use domain::request::Files;
use domain::{AppId, Problem, SendRequest};

use crate::sends::volume::Limits;

/// A send with a valid body. Not checked yet: its times, and whether its template, providers and recipients exist.
pub struct Submission {
    pub app: AppId,
    pub send: Box<SendRequest>,
    /// Contents of the files.
    pub files: Files,
    /// Sends per second that the app may make in the transactional lane; None if the default applies.
    pub transactional_rate: Option<NonZeroU32>,
    /// Limits of the bytes that the app may add per day.
    pub volume_limits: Limits,
    /// True if an unknown provider in `override` makes the send invalid.
    pub strict: bool,
    /// Problems of `sendAt` and `expiresAt`. They are ignored if the idempotency key already belongs to a send.
    pub untimely: Vec<Problem>,
    pub reject_unknown: bool,
    pub idempotency: Option<Idempotency>,
}

/// An idempotency key, with the digest of the body of its request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idempotency {
    pub key: String,
    pub body_hash: [u8; 32],
}
