//! Kinds of web push providers.

use worker::ChannelKind;

use crate::push_services::PushServices;
use crate::vapid::Vapid;

/// Supported kinds of providers.
pub const KINDS: &[&dyn ChannelKind<PushServices>] = &[&Vapid];
