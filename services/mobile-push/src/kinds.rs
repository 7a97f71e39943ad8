//! Kinds of mobile push providers.

use worker::ChannelKind;

use crate::apns::send::Apns;
use crate::calls::Calls;
use crate::fcm::send::Fcm;

/// Supported kinds of providers.
pub const KINDS: &[&dyn ChannelKind<Calls>] = &[&Apns, &Fcm];
