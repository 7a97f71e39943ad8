//! Kinds of email providers.

use worker::ChannelKind;

use crate::connections::Connections;
use crate::postmark::send::Postmark;
use crate::smtp::send::Smtp;

/// Supported kinds of providers.
pub const KINDS: &[&dyn ChannelKind<Connections>] = &[&Smtp, &Postmark];
